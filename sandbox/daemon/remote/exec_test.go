package remote_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

func TestClient_Exec(t *testing.T) {
	f := newFar(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), 400_000)
	for name, tc := range map[string]struct {
		spec daemon.ExecSpec
		want daemon.ExecOutcome
	}{
		"output, error and code": {shell("echo out; echo err >&2; exit 7"), daemon.ExecOutcome{Stdout: []byte("out\n"), Stderr: []byte("err\n"), ExitCode: 7}},
		"a missing program":      {daemon.ExecSpec{Argv: []string{"/none"}, OutputLimit: 99}, daemon.ExecOutcome{Stderr: []byte("/none: no such file or directory\n"), ExitCode: 127}},
		"input larger than a frame": {
			daemon.ExecSpec{Argv: []string{"/usr/bin/wc", "-c"}, Stdin: large, OutputLimit: 99, Timeout: testTimeout}, daemon.ExecOutcome{Stdout: []byte("6400000\n")},
		},
		"output that is cut": {daemon.ExecSpec{Argv: []string{"/bin/echo", "abcdef"}, OutputLimit: 3, Timeout: testTimeout}, daemon.ExecOutcome{Stdout: []byte("abc")}},
		"both streams exactly at the bound": {
			daemon.ExecSpec{Argv: []string{"/bin/sh", "-c", "printf abcdef; printf ABCDEF >&2"}, OutputLimit: 3, Timeout: testTimeout},
			daemon.ExecOutcome{Stdout: []byte("abc"), Stderr: []byte("ABC")},
		},
		"environment and folder": {
			daemon.ExecSpec{Argv: []string{"/bin/sh", "-c", "echo $A $PWD"}, Env: map[string]string{"A": "b"}, Workdir: "/usr", OutputLimit: 99, Timeout: testTimeout},
			daemon.ExecOutcome{Stdout: []byte("b /usr\n")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := f.Exec(t.Context(), tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(daemon.ExecOutcome{}, "Duration"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if got.Duration <= 0 {
				t.Errorf("it took %s", got.Duration)
			}
		})
	}
}

func TestClient_Exec_ends(t *testing.T) {
	f := newFar(t)
	spec := shell("sleep 876")
	spec.Timeout = 200 * time.Millisecond
	if _, err := f.Exec(t.Context(), spec); !errors.Is(err, daemon.ErrExecTimeout) {
		t.Errorf("after its timeout the error is %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := f.Exec(ctx, shell("sleep 877")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its caller left the error is %v", err)
	}
	deadline := time.Now().Add(testTimeout)
	for {
		left := f.output(t, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
		if !strings.Contains(left, "sleep 87") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("programs are left: %q", left)
		}
	}
}

func TestClient_Exec_many_at_once(t *testing.T) {
	f := newFar(t)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			outcome, err := f.Exec(t.Context(), shell("head -c 700000 /dev/zero"))
			if err != nil || len(outcome.Stdout) != 700_000 {
				t.Errorf("%d bytes, %v", len(outcome.Stdout), err)
			}
		})
	}
	group.Wait()
}

func TestClient_machine_that_ends(t *testing.T) {
	for name, end := range map[string]func(far){
		"the guest":      func(f far) { _ = f.guest.Stop(context.Background()) },
		"the connection": func(f far) { f.cut() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFar(t)
			running := make(chan error, 1)
			go func() {
				_, err := f.Exec(t.Context(), shell("touch /on; sleep 100"))
				running <- err
			}()
			for deadline := time.Now().Add(testTimeout); ; {
				if _, err := f.Stat(t.Context(), "/on"); err == nil {
					break
				} else if time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
			end(f)
			if err := <-running; !errors.Is(err, daemon.ErrMachineGone) {
				t.Errorf("the running program's error is %v", err)
			}
			if _, err := f.Stat(t.Context(), "/"); !errors.Is(err, daemon.ErrMachineGone) {
				t.Errorf("the next call's error is %v", err)
			}
		})
	}
}
