package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

func TestClient_content_comes_back_as_it_went(t *testing.T) {
	f := newFar(t)
	content := make([]byte, 3<<20+17)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(content)
	for _, size := range []int{0, 1, len(content)} {
		written, err := f.WriteFile(t.Context(), daemon.WriteSpec{Path: "/d/f", Mode: 0o640, Parents: true}, bytes.NewReader(content[:size]))
		if err != nil || written != int64(size) {
			t.Fatalf("wrote %d of %d, %v", written, size, err)
		}
		info, reader, err := f.OpenFile(t.Context(), "/d/f")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(reader)
		if err := errors.Join(err, reader.Close()); err != nil || !bytes.Equal(got, content[:size]) || info.Size != int64(size) || info.Mode != 0o640 {
			t.Errorf("%d bytes came back as %d, %+v, %v", size, len(got), info, err)
		}
	}
}

func TestClient_operations(t *testing.T) {
	f := newFar(t)
	ctx := t.Context()
	f.output(t, "mkdir /d; printf 'one\\ntwo\\n' > /d/a; ln -s a /d/link")
	infos, err := f.List(ctx, "/d")
	if err != nil || len(infos) != 2 {
		t.Errorf("the list is %+v, %v", infos, err)
	}
	made, err := f.MakeDir(ctx, daemon.MakeDirSpec{Path: "/d/sub", Mode: 0o700})
	if err != nil || !made {
		t.Errorf("made %v, %v", made, err)
	}
	count, err := f.ChangeMode(ctx, daemon.ModeSpec{Path: "/d", Mode: 0o750, Recursive: true})
	if err != nil || count != 3 {
		t.Errorf("changed %d, %v", count, err)
	}
	found, err := f.Grep(ctx, daemon.GrepSpec{Selection: daemon.Selection{Path: "/d", Recursive: true}, Pattern: "t.o", MaxMatches: 9, MaxLineBytes: 99})
	want := daemon.GrepResult{Matches: []daemon.GrepMatch{{Path: "/d/a", Line: 2, Content: "two"}}}
	if diff := cmp.Diff(want, found); err != nil || diff != "" {
		t.Errorf("found (-want +got), %v:\n%s", err, diff)
	}
	replaced, err := f.Sed(ctx, daemon.SedSpec{Files: []string{"/d/a"}, Pattern: "one", Replacement: "1"})
	if err != nil || replaced.Total != 1 {
		t.Errorf("replaced %+v, %v", replaced, err)
	}
	if err := f.Move(ctx, daemon.MoveSpec{From: "/d/a", To: "/d/b"}); err != nil {
		t.Error(err)
	}
	if got := f.output(t, "cat /d/b"); got != "1\ntwo\n" {
		t.Errorf("the file holds %q", got)
	}
	if err := f.Remove(ctx, daemon.RemoveSpec{Path: "/d", Recursive: true}); err != nil {
		t.Error(err)
	}
	if _, err := f.Stat(ctx, "/d"); !errors.Is(err, daemon.ErrFileMissing) {
		t.Errorf("the removed folder's error is %v", err)
	}
}

func TestClient_failures(t *testing.T) {
	f := newFar(t)
	ctx := t.Context()
	f.output(t, "mkdir -p /d/s; echo x > /d/f")
	var argument *daemon.ArgumentError
	var pattern *daemon.PatternError
	for name, tc := range map[string]struct {
		do   func() error
		want func(error) bool
	}{
		"a missing parent": {func() error {
			_, err := f.WriteFile(ctx, daemon.WriteSpec{Path: "/none/f"}, strings.NewReader("x"))
			return err
		}, is(daemon.ErrParentMissing)},
		"a folder that is read": {func() error { _, _, err := f.OpenFile(ctx, "/d"); return err }, is(daemon.ErrWrongType)},
		"what is there": {func() error {
			_, err := f.MakeDir(ctx, daemon.MakeDirSpec{Path: "/d"})
			return err
		}, is(daemon.ErrExists)},
		"a full folder": {func() error { return f.Remove(ctx, daemon.RemoveSpec{Path: "/d"}) }, is(daemon.ErrNotEmpty)},
		"the root":      {func() error { return f.Remove(ctx, daemon.RemoveSpec{Path: "/", Recursive: true}) }, func(err error) bool { return errors.As(err, &argument) }},
		"a bad expression": {func() error {
			_, err := f.Grep(ctx, daemon.GrepSpec{Selection: daemon.Selection{Path: "/d", Recursive: true}, Pattern: "("})
			return err
		}, func(err error) bool { return errors.As(err, &pattern) }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.do(); !tc.want(err) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func is(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}

// failing gives some content and then an error.
type failing struct{ left int }

var errSource = errors.New("the source broke")

// Read implements io.Reader.
func (f *failing) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, errSource
	}
	n := min(len(p), f.left)
	f.left -= n
	return n, nil
}

func TestClient_WriteFile_that_breaks_leaves_the_old_file(t *testing.T) {
	f := newFar(t)
	f.output(t, "echo old > /f")
	for _, size := range []int{0, 10, 1 << 20} {
		if _, err := f.WriteFile(t.Context(), daemon.WriteSpec{Path: "/f"}, &failing{left: size}); !errors.Is(err, errSource) {
			t.Errorf("after %d bytes the error is %v", size, err)
		}
	}
	for deadline := time.Now().Add(testTimeout); f.output(t, "cat /f; ls -A / | grep -c write- || true") != "old\n0\n"; {
		if time.Now().After(deadline) {
			t.Fatal(f.output(t, "cat /f; ls -A /"))
		}
	}
}

// TestClient_refused_upload ends although nobody reads the content.
func TestClient_refused_upload(t *testing.T) {
	f := newFar(t)
	_, err := f.WriteFile(t.Context(), daemon.WriteSpec{Path: "/usr"}, &failing{left: 64 << 20})
	if !errors.Is(err, daemon.ErrWrongType) {
		t.Errorf("error is %v", err)
	}
}

func TestClient_caller_that_leaves(t *testing.T) {
	f := newFar(t)
	f.output(t, "head -c 50000000 /dev/zero > /large")
	for i := range 20 {
		_, reader, err := f.OpenFile(t.Context(), "/large")
		if err != nil {
			t.Fatal(i, err)
		}
		if _, err := io.ReadFull(reader, make([]byte, 100)); err != nil {
			t.Fatal(i, err)
		}
		if err := reader.Close(); err != nil {
			t.Fatal(i, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	stuck, _ := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := f.WriteFile(ctx, daemon.WriteSpec{Path: "/f"}, stuck)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a stuck upload ended with %v", err)
	}
	// The connection is as good as before.
	if got := f.output(t, fmt.Sprintf("echo %d", 6*7)); got != "42\n" {
		t.Errorf("the guest says %q", got)
	}
}
