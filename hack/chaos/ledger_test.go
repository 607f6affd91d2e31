package main

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/hack/chaos/link"
)

const someToken = "tkn-call-7"

func execOf(text string) *protocol.InvokeFunction {
	data, _ := json.Marshal(m{"sandbox_id": "x", "stdin": base64.StdEncoding.EncodeToString([]byte(text))})
	return &protocol.InvokeFunction{FunctionID: "sandbox::exec", Data: data}
}

func answered(reply wire.Reply, exitCode int) *protocol.InvocationResult {
	stdout, _ := wire.EncodeReply(reply)
	result, _ := json.Marshal(m{"stdout": string(stdout), "exit_code": exitCode})
	return &protocol.InvocationResult{Result: result}
}

func TestLedger_counts(t *testing.T) {
	carrying := execOf(`{"payload":{"token":"` + someToken + `"}}`)
	missing, _ := json.Marshal(m{"stdout": "", "exit_code": 127})
	for name, tc := range map[string]struct {
		call   *protocol.InvokeFunction
		answer *protocol.InvocationResult
		want   int
	}{
		"answered":                       {carrying, answered(wire.Reply{Result: json.RawMessage("1")}, 0), 1},
		"never answered":                 {carrying, nil, 1},
		"the handler failed":             {carrying, answered(wire.Reply{Error: &wire.Failure{Kind: wire.TimedOut}}, 0), 1},
		"the guest died":                 {carrying, &protocol.InvocationResult{Error: link.DaemonFault("S300", "gone")}, 1},
		"all places were taken":          {carrying, &protocol.InvocationResult{Error: link.DaemonFault("S003", "busy")}, 0},
		"no such sandbox":                {carrying, &protocol.InvocationResult{Error: link.DaemonFault("S002", "none")}, 0},
		"the source is not there":        {carrying, answered(wire.Reply{Error: &wire.Failure{Kind: wire.NotPlanted}}, 0), 0},
		"the agent is not there":         {carrying, &protocol.InvocationResult{Result: missing}, 0},
		"something else was executed":    {execOf("{}"), nil, 0},
		"something that is no exec":      {&protocol.InvokeFunction{FunctionID: "sandbox::stop", Data: carrying.Data}, nil, 0},
		"an input that is no base64":     {&protocol.InvokeFunction{FunctionID: "sandbox::exec", Data: json.RawMessage(`{"stdin":"%"}`)}, nil, 0},
		"an exec without standard input": {&protocol.InvokeFunction{FunctionID: "sandbox::exec", Data: json.RawMessage(`{}`)}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.Passed("i", tc.call)
			if tc.answer != nil {
				tc.answer.InvocationID = "i"
				l.Answered(tc.answer)
			}
			if got := l.count(someToken); got != tc.want {
				t.Errorf("counted %d, want %d", got, tc.want)
			}
		})
	}
}

func TestLedger_repeated(t *testing.T) {
	l := newLedger()
	l.Passed("1", execOf(someToken))
	l.Answered(&protocol.InvocationResult{InvocationID: "1", Error: link.DaemonFault("S003", "busy")})
	l.Passed("2", execOf(someToken))
	if problems := l.repeated(); len(problems) != 0 {
		t.Errorf("a refused execution counts: %v", problems)
	}
	l.Passed("3", execOf(someToken))
	if diff := cmp.Diff([]string{someToken + " was executed 2 times"}, l.repeated()); diff != "" {
		t.Errorf("repeated (-want +got):\n%s", diff)
	}
}
