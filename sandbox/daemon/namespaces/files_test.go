package namespaces_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

func write(machine daemon.Machine, path, content string, change ...func(*daemon.WriteSpec)) (int64, error) {
	spec := daemon.WriteSpec{Path: path, Mode: 0o644}
	for _, each := range change {
		each(&spec)
	}
	return machine.WriteFile(context.Background(), spec, strings.NewReader(content))
}

func read(t *testing.T, machine daemon.Machine, path string) (daemon.FileInfo, []byte) {
	t.Helper()
	info, content, err := machine.OpenFile(context.Background(), path)
	if err != nil {
		t.Fatalf("opening %s: %v", path, err)
	}
	defer content.Close()
	all, err := io.ReadAll(content)
	if err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	return info, all
}

func TestMachine_WriteFile(t *testing.T) {
	machine := newMachine(t)
	before := time.Now().Add(-2 * time.Second)
	written, err := write(machine, "/job/deep/tool.sh", "#!/bin/sh\necho made\n", func(s *daemon.WriteSpec) {
		s.Mode, s.Parents = 0o750, true
	})
	if err != nil || written != 20 {
		t.Fatalf("wrote %d bytes, error %v", written, err)
	}
	if got := output(t, machine, "/job/deep/tool.sh"); got != "made\n" {
		t.Errorf("the file said %q", got)
	}
	info, err := machine.Stat(context.Background(), "/job/deep/tool.sh")
	if err != nil {
		t.Fatal(err)
	}
	if info.ModTime.Before(before) || info.ModTime.After(time.Now()) {
		t.Errorf("modified at %v", info.ModTime)
	}
	info.ModTime = time.Time{}
	if diff := cmp.Diff(daemon.FileInfo{Name: "tool.sh", Size: 20, Mode: 0o750}, info); diff != "" {
		t.Error(diff)
	}
	if got := output(t, machine, "ls -A /job/deep"); got != "tool.sh\n" {
		t.Errorf("the folder holds %q", got)
	}
}

func TestMachine_WriteFile_replaces_a_link_and_not_its_target(t *testing.T) {
	machine := newMachine(t)
	output(t, machine, "echo old > /tmp/target; ln -s /tmp/target /tmp/link")
	if _, err := write(machine, "/tmp/link", "new\n"); err != nil {
		t.Fatal(err)
	}
	if got := output(t, machine, "cat /tmp/target /tmp/link"); got != "old\nnew\n" {
		t.Errorf("got %q", got)
	}
}

func TestMachine_large_file_comes_back_as_it_went(t *testing.T) {
	machine := newMachine(t)
	content := make([]byte, 20<<20+17)
	_, _ = rand.Read(content)
	written, err := machine.WriteFile(context.Background(), daemon.WriteSpec{Path: "/tmp/big", Mode: 0o600}, bytes.NewReader(content))
	if err != nil || written != int64(len(content)) {
		t.Fatalf("wrote %d bytes, error %v", written, err)
	}
	info, got := read(t, machine, "/tmp/big")
	if info.Size != int64(len(content)) || !bytes.Equal(got, content) {
		t.Errorf("got %d of %d bytes back", len(got), len(content))
	}
}

func TestMachine_OpenFile_follows_links_inside_the_guest(t *testing.T) {
	machine := newMachine(t)
	output(t, machine, "ln -s ../../../../../../etc/hostname /tmp/up; ln -s /etc/hostname /tmp/absolute")
	for _, path := range []string{"/tmp/up", "/tmp/absolute", "/tmp/../../../etc/hostname"} {
		if _, got := read(t, machine, path); string(got) != "sandbox\n" {
			t.Errorf("%s holds %q", path, got)
		}
	}
	if info, err := machine.Stat(context.Background(), "/tmp/up"); err != nil || !info.IsSymlink {
		t.Errorf("a link is %+v, error %v", info, err)
	}
}

func TestMachine_files_failure(t *testing.T) {
	machine := newMachine(t)
	output(t, machine, "mkfifo /tmp/pipe; echo x > /tmp/file; ln -s /tmp/loop /tmp/loop")
	open := func(path string) error {
		_, content, err := machine.OpenFile(context.Background(), path)
		if err == nil {
			_ = content.Close()
		}
		return err
	}
	stat := func(path string) error {
		_, err := machine.Stat(context.Background(), path)
		return err
	}
	put := func(path string) error {
		_, err := write(machine, path, strings.Repeat("x", 300_000))
		return err
	}
	cases := map[string]struct {
		act  func(string) error
		path string
		want error
	}{
		"reading a missing file":          {open, "/tmp/none", daemon.ErrFileMissing},
		"reading a folder":                {open, "/tmp", daemon.ErrWrongType},
		"reading a pipe does not hang":    {open, "/tmp/pipe", daemon.ErrWrongType},
		"reading a device":                {open, "/dev/zero", daemon.ErrWrongType},
		"reading a link to itself":        {open, "/tmp/loop", daemon.ErrWrongType},
		"describing a missing file":       {stat, "/tmp/none", daemon.ErrFileMissing},
		"describing below a file":         {stat, "/tmp/file/x", daemon.ErrWrongType},
		"writing over a folder":           {put, "/tmp", daemon.ErrWrongType},
		"writing into a missing folder":   {put, "/no/such/file", daemon.ErrParentMissing},
		"writing below a file":            {put, "/tmp/file/x", daemon.ErrWrongType},
		"writing into what is the host's": {put, "/etc/ssl/certs/x", daemon.ErrPermission},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.act(tc.path); !errors.Is(err, tc.want) {
				t.Errorf("got error %v, want %v", err, tc.want)
			}
		})
	}
}

func TestMachine_WriteFile_cut_short_leaves_nothing(t *testing.T) {
	machine := newMachine(t)
	broken := errors.New("the upload broke")
	_, err := machine.WriteFile(context.Background(), daemon.WriteSpec{Path: "/opt/part", Mode: 0o644},
		io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Fatalf("got error %v", err)
	}
	eventually(t, func() error {
		if left := output(t, machine, "ls -A /opt"); left != "" {
			return errors.New("left: " + left)
		}
		return nil
	})
}

func TestMachine_WriteFile_to_a_full_disk(t *testing.T) {
	machine := newMachine(t)
	_, err := machine.WriteFile(context.Background(), daemon.WriteSpec{Path: "/opt/huge", Mode: 0o644},
		io.LimitReader(zeroes{}, 1<<30))
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("got error %v", err)
	}
	if left := output(t, machine, "ls -A /opt"); left != "" {
		t.Errorf("left: %s", left)
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
