package namespaces_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

func TestMachine_Exec(t *testing.T) {
	machine := newMachine(t)
	cases := map[string]struct {
		spec       daemon.ExecSpec
		wantCode   int
		wantOut    string
		wantStderr string
	}{
		"a program's output and success": {
			spec: daemon.ExecSpec{Argv: []string{"echo", "hello"}}, wantOut: "hello\n",
		},
		"a program's own exit code": {
			spec: daemon.ExecSpec{Argv: []string{"sh", "-c", "echo no >&2; exit 7"}}, wantCode: 7, wantStderr: "no\n",
		},
		"a killed program has 128 and the signal": {
			spec: daemon.ExecSpec{Argv: []string{"sh", "-c", "kill -KILL $$"}}, wantCode: 137,
		},
		"a missing program": {
			spec: daemon.ExecSpec{Argv: []string{"no-such-program"}}, wantCode: 127,
			wantStderr: "no-such-program: no such file or directory\n",
		},
		"a missing working directory looks like a missing program": {
			spec: daemon.ExecSpec{Argv: []string{"true"}, Workdir: "/no/such/place"}, wantCode: 127,
			wantStderr: "true: no such file or directory\n",
		},
		"a file that may not be executed": {
			spec: daemon.ExecSpec{Argv: []string{"/etc/passwd"}}, wantCode: 126,
			wantStderr: "/etc/passwd: permission denied\n",
		},
		"standard input arrives and ends": {
			spec: daemon.ExecSpec{Argv: []string{"cat"}, Stdin: []byte("in\x00\xff")}, wantOut: "in\x00\xff",
		},
		"no standard input is an end at once": {
			spec: daemon.ExecSpec{Argv: []string{"cat"}},
		},
		"a program that does not read its input": {
			spec: daemon.ExecSpec{Argv: []string{"true"}, Stdin: bytes.Repeat([]byte("x"), 1<<20)},
		},
		"the environment is clean but for what was given": {
			spec:    daemon.ExecSpec{Argv: []string{"env"}, Env: map[string]string{"A": "1"}},
			wantOut: "A=1\nHOME=/root\nLANG=C.UTF-8\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
		},
		"the working directory": {
			spec: daemon.ExecSpec{Argv: []string{"pwd"}, Workdir: "/var/tmp"}, wantOut: "/var/tmp\n",
		},
		"without one it is the root": {
			spec: daemon.ExecSpec{Argv: []string{"pwd"}}, wantOut: "/\n",
		},
		"a program leads a process group and session of its own": {
			spec:    daemon.ExecSpec{Argv: []string{"sh", "-c", `set -- $(cat /proc/$$/stat); [ "$1" = "$5" ] && [ "$1" = "$6" ] && echo yes`}},
			wantOut: "yes\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			outcome := run(t, machine, tc.spec)
			got := []any{outcome.ExitCode, string(outcome.Stdout), string(outcome.Stderr)}
			if diff := cmp.Diff([]any{tc.wantCode, tc.wantOut, tc.wantStderr}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMachine_Exec_output_is_cut_and_the_rest_read(t *testing.T) {
	outcome := run(t, newMachine(t), daemon.ExecSpec{
		Argv:        []string{"sh", "-c", "head -c 5000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 3"},
		OutputLimit: 1000,
	})
	if len(outcome.Stdout) != 1000 || len(outcome.Stderr) != 1000 || outcome.ExitCode != 3 {
		t.Errorf("got %d and %d bytes and exit code %d", len(outcome.Stdout), len(outcome.Stderr), outcome.ExitCode)
	}
}

func TestMachine_Exec_is_lossless(t *testing.T) {
	input := make([]byte, 900_000)
	_, _ = rand.Read(input)
	outcome := run(t, newMachine(t), daemon.ExecSpec{Argv: []string{"cat"}, Stdin: input})
	if !bytes.Equal(input, outcome.Stdout) {
		t.Errorf("%d bytes came back changed", len(outcome.Stdout))
	}
}

func TestMachine_Exec_timeout(t *testing.T) {
	cases := map[string]string{
		"of a program and its children":                    "sleep 987 & sleep 987; true",
		"of a child that holds the output of an ended one": "sleep 987 & exit 0",
		"of a program that ignores signals":                "trap '' TERM INT HUP; sleep 987; sleep 987",
	}
	machine := newMachine(t)
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := machine.Exec(context.Background(), daemon.ExecSpec{
				Argv: []string{"sh", "-c", script}, Timeout: 300 * time.Millisecond, OutputLimit: 100,
			})
			if !errors.Is(err, daemon.ErrExecTimeout) {
				t.Fatalf("got error %v", err)
			}
			eventually(t, func() error { return noneRuns(t, machine, "sleep 987") })
		})
	}
}

// noneRuns looks for a command line among the guest's processes.
func noneRuns(t *testing.T, machine daemon.Machine, command string) error {
	all := output(t, machine, `for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline 2>/dev/null; echo; done`)
	for line := range strings.Lines(all) {
		if strings.TrimSpace(line) == command {
			return fmt.Errorf("%q runs", command)
		}
	}
	return nil
}

func TestMachine_Exec_cancelled(t *testing.T) {
	machine := newMachine(t)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := machine.Exec(ctx, daemon.ExecSpec{Argv: []string{"sleep", "988"}, Timeout: testTimeout, OutputLimit: 100})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got error %v", err)
	}
	eventually(t, func() error { return noneRuns(t, machine, "sleep 988") })
}

func TestMachine_Exec_background_survives(t *testing.T) {
	machine := newMachine(t)
	pid := strings.TrimSpace(output(t, machine, "sleep 600 >/dev/null 2>&1 </dev/null & echo $!"))
	if got := output(t, machine, "tr '\\0' ' ' < /proc/"+pid+"/cmdline"); got != "sleep 600 " {
		t.Errorf("process %s is %q", pid, got)
	}
}

func TestMachine_Exec_orphans_are_reaped(t *testing.T) {
	machine := newMachine(t)
	output(t, machine, "for i in $(seq 50); do (sh -c 'true' &) ; done")
	eventually(t, func() error {
		if states := output(t, machine, "cat /proc/[0-9]*/stat 2>/dev/null | cut -d' ' -f3 | sort | uniq -c"); strings.Contains(states, "Z") {
			return fmt.Errorf("zombies: %s", states)
		}
		return nil
	})
}

func TestMachine_Exec_concurrent(t *testing.T) {
	machine := newMachine(t)
	slow := make(chan daemon.ExecOutcome, 1)
	go func() {
		outcome, _ := machine.Exec(context.Background(), daemon.ExecSpec{
			Argv: []string{"sh", "-c", "yes & wait"}, Timeout: 5 * time.Minute, OutputLimit: 10,
		})
		slow <- outcome
	}()
	var working sync.WaitGroup
	for i := range 40 {
		working.Go(func() {
			want := strings.Repeat(fmt.Sprint(i), 10_000)
			outcome, err := machine.Exec(context.Background(), daemon.ExecSpec{
				Argv: []string{"cat"}, Stdin: []byte(want), Timeout: testTimeout, OutputLimit: 1 << 20,
			})
			if err != nil || string(outcome.Stdout) != want {
				t.Errorf("exec %d: error %v, %d bytes", i, err, len(outcome.Stdout))
			}
		})
	}
	working.Wait()
	output(t, machine, "kill -KILL $(cat /proc/[0-9]*/stat | grep '(yes)' | cut -d' ' -f1)")
	if outcome := <-slow; len(outcome.Stdout) != 10 {
		t.Errorf("the slow one gave %q", outcome.Stdout)
	}
}
