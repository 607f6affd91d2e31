package namespaces_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

func TestMachine_operations(t *testing.T) {
	machine := newMachine(t)
	ctx := context.Background()
	made, err := machine.MakeDir(ctx, daemon.MakeDirSpec{Path: "/job/d", Mode: 0o750, Parents: true})
	if err != nil || !made {
		t.Fatalf("made %t, error %v", made, err)
	}
	output(t, machine, "echo one > /job/d/a; printf 'two\\ntwo' > /job/d/b; ln -s /job/d /job/link")
	entries, err := machine.List(ctx, "/job/link/../d")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, fmt.Sprintf("%s %o", entry.Name, entry.Mode))
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"a 644", "b 644"}, names); diff != "" {
		t.Error(diff)
	}
	found, err := machine.Grep(ctx, daemon.GrepSpec{Selection: daemon.Selection{Path: "/job", Recursive: true}, Pattern: "tw+o", MaxMatches: 1, MaxLineBytes: 10})
	if diff := cmp.Diff(daemon.GrepResult{Matches: []daemon.GrepMatch{{Path: "/job/d/b", Line: 1, Content: "two"}}, Truncated: true}, found); diff != "" || err != nil {
		t.Error(err, diff)
	}
	changed, err := machine.Sed(ctx, daemon.SedSpec{Selection: daemon.Selection{Path: "/job", Recursive: true}, Pattern: "two", Replacement: "2", Regex: true})
	if diff := cmp.Diff(daemon.SedResult{Files: []daemon.SedFile{{Path: "/job/d/b", Replacements: 2}}, Total: 2}, changed); diff != "" || err != nil {
		t.Error(err, diff)
	}
	updated, err := machine.ChangeMode(ctx, daemon.ModeSpec{Path: "/job", Mode: 0o700, Recursive: true})
	if err != nil || updated != 4 {
		t.Errorf("updated %d, error %v", updated, err)
	}
	// To another file system of the guest.
	if err := machine.Move(ctx, daemon.MoveSpec{From: "/job", To: "/usr/local/job"}); err != nil {
		t.Error(err)
	}
	if got := output(t, machine, "cat /usr/local/job/d/b; readlink /usr/local/job/link; ls /job 2>&1 || true; stat -c %a /usr/local/job/d"); !strings.HasPrefix(got, "2\n2/job/d\n") || !strings.HasSuffix(got, "700\n") || !strings.Contains(got, "No such file") {
		t.Errorf("after the move: %q", got)
	}
	if err := machine.Remove(ctx, daemon.RemoveSpec{Path: "/usr/local/job", Recursive: true}); err != nil {
		t.Error(err)
	}
}

func TestMachine_operations_failure(t *testing.T) {
	machine := newMachine(t)
	output(t, machine, "mkdir -p /job/full; echo x > /job/full/x; ln -s / /job/root; ln -s /proc/1/root /job/one")
	ctx := context.Background()
	var argument *daemon.ArgumentError
	var pattern *daemon.PatternError
	mode := func(path string) error {
		_, err := machine.ChangeMode(ctx, daemon.ModeSpec{Path: path, Mode: 0o777, Recursive: true})
		return err
	}
	mkdir := func(path string) error {
		_, err := machine.MakeDir(ctx, daemon.MakeDirSpec{Path: path, Mode: 0o755})
		return err
	}
	grep := func(spec daemon.GrepSpec) error {
		_, err := machine.Grep(ctx, spec)
		return err
	}
	for name, tc := range map[string]struct{ got, want error }{
		"a folder that is there":     {mkdir("/job"), daemon.ErrExists},
		"a folder in none":           {mkdir("/none/x"), daemon.ErrParentMissing},
		"a folder that is not empty": {machine.Remove(ctx, daemon.RemoveSpec{Path: "/job/full"}), daemon.ErrNotEmpty},
		"what is not there":          {machine.Remove(ctx, daemon.RemoveSpec{Path: "/none"}), daemon.ErrFileMissing},
		"what is the host's":         {mode("/etc/ssl/certs"), daemon.ErrPermission},
		"a name that is taken":       {machine.Move(ctx, daemon.MoveSpec{From: "/job/full/x", To: "/etc/hostname"}), daemon.ErrExists},
		"the kernel's settings":      {mode("/proc/sys/kernel/hostname"), daemon.ErrPermission},
	} {
		if !errors.Is(tc.got, tc.want) {
			t.Errorf("%s: error is %v, want %v", name, tc.got, tc.want)
		}
	}
	// Whether the process may be looked at decides which of the two it is.
	if err := mode("/job/one/etc"); !errors.Is(err, daemon.ErrPermission) && !errors.Is(err, daemon.ErrWrongType) {
		t.Errorf("a way through a process: %v", err)
	}
	if err := grep(daemon.GrepSpec{Selection: daemon.Selection{Path: "/job"}, Pattern: "x"}); !errors.As(err, &argument) {
		t.Errorf("a folder alone: %v", err)
	}
	if err := grep(daemon.GrepSpec{Selection: daemon.Selection{Path: "/job", Recursive: true}, Pattern: "("}); !errors.As(err, &pattern) {
		t.Errorf("a bad pattern: %v", err)
	}
}

// TestMachine_Grep_ends_with_its_caller searches all there is, /proc included.
func TestMachine_Grep_ends_with_its_caller(t *testing.T) {
	machine := newMachine(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := machine.Grep(ctx, daemon.GrepSpec{Selection: daemon.Selection{Path: "/", Recursive: true}, Pattern: "no such text", MaxMatches: 1, MaxLineBytes: 1})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	if got := output(t, machine, "echo alive"); got != "alive\n" {
		t.Errorf("afterwards: %q", got)
	}
}

func TestMachine_List_of_a_large_folder(t *testing.T) {
	machine := newMachine(t)
	output(t, machine, "mkdir /many && cd /many && seq 5000 | xargs touch")
	entries, err := machine.List(context.Background(), "/many")
	if err != nil || len(entries) != 5000 {
		t.Errorf("%d entries, error %v", len(entries), err)
	}
}

func TestMachine_WriteFile_that_stalls(t *testing.T) {
	machine := boot(t, newBackend(t, namespaces.UseUploadPause(100*time.Millisecond)))
	content, writer := io.Pipe()
	defer content.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := writer.Write([]byte("half"))
		sent <- err
	}()
	_, err := machine.WriteFile(context.Background(), daemon.WriteSpec{Path: "/opt/part", Mode: 0o644}, content)
	if !errors.Is(err, daemon.ErrUploadStalled) {
		t.Errorf("error is %v", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if left := output(t, machine, "ls -A /opt"); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestBackend_CheckImage(t *testing.T) {
	backend := newBackend(t)
	for name, want := range map[string]error{"node": nil, "python": nil, "mine": daemon.ErrNoImage} {
		if err := backend.CheckImage(name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
