package publish

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func TestServe_contextOfTheCall(t *testing.T) {
	w := newCallWorld(t)
	w.boot("0")
	var got atomic.Pointer[wire.CallRequest]
	w.answers(t, func(_ context.Context, call wire.CallRequest) (wire.Reply, error) {
		got.Store(&call)
		return wire.Reply{}, nil
	})
	before := time.Now()
	// A reference to a channel (contracts/iii-bus.md §8) and the engine's addition.
	const payload = `{"in":{"channel_id":"c","access_key":"k","direction":"read"},"_caller_worker_id":"7f"}`
	_, err := w.Serve(t.Context(), bus.Invocation{
		ID: "1", FunctionID: "shop::price", Data: json.RawMessage(payload), Metadata: json.RawMessage(`{"tenant":"a","n":1}`),
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
	if err != nil {
		t.Fatal(err)
	}
	call := got.Load()
	want := wire.CallContext{
		FunctionID: "shop::price", Metadata: json.RawMessage(`{"tenant":"a","n":1}`),
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	if diff := cmp.Diff(want, call.Context, cmpopts.IgnoreFields(wire.CallContext{}, "DeadlineMs")); diff != "" {
		t.Errorf("the handler's context (-want +got):\n%s", diff)
	}
	deadline := time.UnixMilli(call.Context.DeadlineMs)
	if deadline.Before(before.Add(patience-time.Second)) || deadline.After(time.Now().Add(patience)) {
		t.Errorf("the deadline is %s after the call came, want %s", deadline.Sub(before), patience)
	}
	if left := time.Duration(call.TimeoutMs) * time.Millisecond; left <= 0 || left > patience {
		t.Errorf("the agent gives the handler %s", left)
	}
	if string(call.Payload) != payload || call.Token == "" {
		t.Errorf("the agent got the payload %s and the token %q", call.Payload, call.Token)
	}
}

// TestServe_metadataOfTriggers lets a trigger call through the engine.
func TestServe_metadataOfTriggers(t *testing.T) {
	url, w := startEngine(t), newCallWorld(t)
	w.boot("0")
	seen := make(chan wire.CallContext, 1)
	w.answers(t, func(_ context.Context, call wire.CallRequest) (wire.Reply, error) {
		seen <- call.Context
		return wire.Reply{}, nil
	})
	operator := connect(t, url, "sandbox-code-runner")
	publisher := NewPublisher(operator, w.Server, "sandbox-code-runner")
	if err := publisher.Publish(Publication{FunctionID: "shop::price"}); err != nil {
		t.Fatal(err)
	}
	provider := connect(t, url, "clock")
	bindings := make(chan bus.Binding, 1)
	err := provider.RegisterTriggerType(bus.TriggerType{
		ID: "clockwork", Register: func(_ context.Context, b bus.Binding) error { bindings <- b; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := publisher.BindTrigger(Trigger{
		ID: "tick", Type: "clockwork", FunctionID: "shop::price", Metadata: json.RawMessage(`{"why":"tick"}`),
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case b := <-bindings:
		if _, err := provider.Call(ctx, bus.Call{FunctionID: b.FunctionID, Metadata: b.Metadata}); err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
		t.Fatal("the trigger was never bound")
	}
	if got := <-seen; string(got.Metadata) != `{"why":"tick"}` {
		t.Errorf("the handler got the metadata %s", got.Metadata)
	}
}

// TestServe_callerGone loses the caller's connection under a handler, which must
// not go on for nobody.
func TestServe_callerGone(t *testing.T) {
	w := newCallWorld(t)
	w.boot("0")
	tokens := make(chan string, 2)
	started := make(chan struct{})
	w.provider.OnExec(func(ctx context.Context, _ sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		var request struct{ Token string }
		if err := json.Unmarshal(req.Stdin, &request); err != nil {
			t.Error(err)
		}
		tokens <- request.Token
		if req.Argv[1] == wire.CommandCancel {
			return framed(t, wire.Reply{}), nil
		}
		close(started)
		<-ctx.Done()
		return sandbox.ExecResult{}, sandbox.NewUnknownOutcomeError(ctx.Err())
	})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := w.Serve(ctx, bus.Invocation{FunctionID: "shop::price"})
		done <- err
	}()
	<-started
	leave()
	if err := <-done; err == nil {
		t.Error("the call succeeded")
	}
	if call, cancel := <-tokens, <-tokens; call == "" || call != cancel {
		t.Errorf("the call had the token %q, what was cancelled %q", call, cancel)
	}
	if got := len(w.provider.Calls(fake.Exec)); got != 2 {
		t.Errorf("%d execs, want the call and its end", got)
	}
	w.idle(t)
}

func TestServe_enforcesSchemas(t *testing.T) {
	w := newCallWorld(t)
	w.boot("0")
	binding, _ := w.table.Binding("shop::price")
	binding.Request = compiled(t, `{"type":"object","required":["qty"],"additionalProperties":false,"properties":{"qty":{"type":"integer"}}}`)
	binding.Response = compiled(t, `{"type":"number"}`)
	w.table.Bind(binding)
	var calls atomic.Int32
	w.answers(t, func(_ context.Context, call wire.CallRequest) (wire.Reply, error) {
		calls.Add(1)
		if strings.Contains(string(call.Payload), "13") {
			return wire.Reply{Result: json.RawMessage(`"thirteen"`)}, nil
		}
		return wire.Reply{Result: json.RawMessage(`1`)}, nil
	})
	for name, tc := range map[string]struct {
		payload, want string
		reaches       bool
	}{
		"a payload that matches":     {`{"qty":1,"_caller_worker_id":"7f"}`, "", true},
		"a payload that does not":    {`{"qty":"1"}`, "sandbox-code-runner::invalid_request: payload: /qty: is string, must be integer", false},
		"a payload that is nothing":  {`null`, "sandbox-code-runner::invalid_request: payload: /: is null, must be object", false},
		"two problems in one answer": {`{"x":1}`, `sandbox-code-runner::invalid_request: payload: /: lacks "qty"; /: must not have "x"`, false},
		"a result that does not":     {`{"qty":13}`, "sandbox-code-runner::handler_error: result: /: is string, must be number", true},
	} {
		t.Run(name, func(t *testing.T) {
			before := calls.Load()
			_, err := w.call(t, tc.payload)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if !strings.HasSuffix(text, tc.want) || tc.want == "" && err != nil {
				t.Errorf("the caller sees %q, want %q", text, tc.want)
			}
			if reached := calls.Load() > before; reached != tc.reaches {
				t.Errorf("the handler was called: %t", reached)
			}
		})
	}
	w.idle(t)
}
