package daemon_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
)

func TestExec_requests(t *testing.T) {
	config := daemontest.Config()
	config.MaxExecTimeoutMs = 60_000
	s := daemontest.Start(t, daemontest.Options{Backend: &daemontest.Backend{}, Config: config})
	id := create(t, s, nil)
	echo := func(argv []any, more object) object {
		want := object{"argv": argv, "stdin": "", "env": nil, "workdir": "/", "timeout_ms": 60000.0, "output_limit": 1048576.0}
		for name, value := range more {
			want[name] = value
		}
		return want
	}
	for name, tc := range map[string]struct{ request, want object }{
		"a command line":   {object{"cmd": "echo 'a b'"}, echo([]any{"echo", "a b"}, nil)},
		"cmd and args":     {object{"cmd": "echo", "args": []string{"a b"}}, echo([]any{"echo", "a b"}, nil)},
		"a vector":         {object{"argv": []string{"a b", "c"}}, echo([]any{"a b", "c"}, nil)},
		"input in base64":  {object{"cmd": "cat", "stdin": base64.StdEncoding.EncodeToString([]byte("x\ny"))}, echo([]any{"cat"}, object{"stdin": "x\ny"})},
		"an env map":       {object{"cmd": "a", "env": object{"A": "1"}}, echo([]any{"a"}, object{"env": object{"A": "1"}})},
		"an env list":      {object{"cmd": "a", "env": []string{"A=1"}}, echo([]any{"a"}, object{"env": object{"A": "1"}})},
		"env is as it is":  {object{"cmd": "a", "env": object{"A": "ws://localhost:1"}}, echo([]any{"a"}, object{"env": object{"A": "ws://localhost:1"}})},
		"a short timeout":  {object{"cmd": "a", "timeout_ms": 5}, echo([]any{"a"}, object{"timeout_ms": 5.0})},
		"a long timeout":   {object{"cmd": "a", "timeout_ms": 1e15}, echo([]any{"a"}, nil)},
		"a folder to work": {object{"cmd": "a", "workdir": "/w"}, echo([]any{"a"}, object{"workdir": "/w"})},
	} {
		t.Run(name, func(t *testing.T) {
			tc.request["sandbox_id"] = id
			answer := call(t, s, "sandbox::exec", tc.request)
			var got object
			if err := json.Unmarshal([]byte(answer["stdout"].(string)), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("program (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExec_answers(t *testing.T) {
	b := &daemontest.Backend{Exec: func(_ context.Context, _ *daemontest.Machine, spec daemon.ExecSpec) (daemon.ExecOutcome, error) {
		switch spec.Argv[0] {
		case "late":
			return daemon.ExecOutcome{Stdout: []byte("lost")}, daemon.ErrExecTimeout
		case "gone":
			return daemon.ExecOutcome{}, daemon.ErrMachineGone
		}
		return daemon.ExecOutcome{Stdout: []byte("a\xff"), Stderr: []byte("b"), ExitCode: 3, Duration: 41e6}, nil
	}}
	s := start(t, b)
	id := create(t, s, nil)
	want := object{"stdout": "a\uFFFD", "stderr": "b", "exit_code": 3.0, "timed_out": false, "duration_ms": 41.0, "success": false}
	if diff := cmp.Diff(want, call(t, s, "sandbox::exec", object{"sandbox_id": id, "cmd": "ls"})); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	late := refuse(t, s, "sandbox::exec", object{"sandbox_id": id, "cmd": "late", "timeout_ms": 7}, "S200")
	if late.Message != "exec timed out after 7 ms" || late.Type != "execution" {
		t.Errorf("timeout is %+v", late)
	}
	if gone := refuse(t, s, "sandbox::exec", object{"sandbox_id": id, "cmd": "gone"}, "S300"); !strings.HasPrefix(gone.Message, "VM boot failed: ") {
		t.Errorf("loss is %+v", gone)
	}
	for name, request := range map[string]object{
		"no command":       {"sandbox_id": id},
		"a bad id":         {"sandbox_id": "x", "cmd": "ls"},
		"input not base64": {"sandbox_id": id, "cmd": "ls", "stdin": "%"},
		"a bad env name":   {"sandbox_id": id, "cmd": "ls", "env": object{"=": ""}},
		"a huge command":   {"sandbox_id": id, "argv": []string{"ls", strings.Repeat("x", 4<<20)}},
		"before existence": {"sandbox_id": noSandbox},
	} {
		t.Run(name, func(t *testing.T) { refuse(t, s, "sandbox::exec", request, "S001") })
	}
	refuse(t, s, "sandbox::exec", object{"sandbox_id": noSandbox, "cmd": "ls"}, "S002")
}

func TestExec_slots(t *testing.T) {
	running, goOn := make(chan struct{}), make(chan struct{})
	b := &daemontest.Backend{Exec: func(context.Context, *daemontest.Machine, daemon.ExecSpec) (daemon.ExecOutcome, error) {
		running <- struct{}{}
		<-goOn
		return daemon.ExecOutcome{}, nil
	}}
	config := daemontest.Config()
	config.MaxConcurrentExecPerSandbox = 2
	s := daemontest.Start(t, daemontest.Options{Backend: b, Config: config})
	id, other := create(t, s, nil), create(t, s, nil)
	request := object{"sandbox_id": id, "cmd": "wait"}
	var programs sync.WaitGroup
	for range 2 {
		programs.Go(func() {
			if _, err := tryCall(s, "sandbox::exec", request); err != nil {
				t.Errorf("a program within the cap: %v", err)
			}
		})
	}
	<-running
	<-running
	busy := refuse(t, s, "sandbox::exec", request, "S003")
	if busy.Retryable || busy.Message != "sandbox "+id+" is at its exec concurrency cap" {
		t.Errorf("refusal is %+v", busy)
	}
	got := rows(t, s)
	if got[id]["exec_in_flight"] != 2.0 || got[id]["exec_slots_free"] != 0.0 || got[id]["exec_in_progress"] != true {
		t.Errorf("row is %v", got[id])
	}
	if got[other]["exec_slots_free"] != 2.0 {
		t.Errorf("the other sandbox's row is %v", got[other])
	}
	// Files take no slot.
	call(t, s, "sandbox::fs::stat", object{"sandbox_id": id, "path": "/"})
	close(goOn)
	programs.Wait()
	if got := rows(t, s)[id]; got["exec_slots_free"] != 2.0 {
		t.Errorf("slots did not come back: %v", got)
	}
}
