package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func handler(h Handler) func(*Client) {
	return func(c *Client) {
		if err := c.RegisterFunction(Function{ID: "a::f", Handler: h}); err != nil {
			panic(err)
		}
	}
}

func TestClient_answers(t *testing.T) {
	failed := protocol.CodeInvocationFailed
	tests := map[string]struct {
		handler Handler
		want    string
		err     *protocol.ErrorBody
	}{
		"a result is sent": {
			func(context.Context, Invocation) (json.RawMessage, error) { return json.RawMessage(`{"a":1}`), nil },
			`{"a":1}`, nil,
		},
		"a nil result is left out": {
			func(context.Context, Invocation) (json.RawMessage, error) { return nil, nil },
			"", nil,
		},
		"a remote error keeps its code through wrapping": {
			func(context.Context, Invocation) (json.RawMessage, error) {
				return nil, fmt.Errorf("wrapped: %w", &RemoteError{Code: "FORBIDDEN", Message: "no", Stacktrace: "s"})
			},
			"", &protocol.ErrorBody{Code: "FORBIDDEN", Message: "no", Stacktrace: "s"},
		},
		"any other error is a failed invocation": {
			func(context.Context, Invocation) (json.RawMessage, error) { return nil, errors.New("no such city") },
			"", &protocol.ErrorBody{Code: failed, Message: "no such city"},
		},
		"a panic is a failed invocation that hides its value": {
			func(context.Context, Invocation) (json.RawMessage, error) { panic("s3cret") },
			"", &protocol.ErrorBody{Code: failed, Message: "function a::f panicked"},
		},
		"a result that is no JSON is a failed invocation": {
			func(context.Context, Invocation) (json.RawMessage, error) { return json.RawMessage("{"), nil },
			"", &protocol.ErrorBody{Code: failed},
		},
		"a result that is too large is a failed invocation": {
			func(context.Context, Invocation) (json.RawMessage, error) {
				return json.RawMessage(`"` + strings.Repeat("x", maxFrame) + `"`), nil
			},
			"", &protocol.ErrorBody{Code: failed},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, p, _ := startAdmitted(t, nil, handler(tc.handler))
			next[*protocol.RegisterFunction](p)
			got := p.invoke("i1", "a::f", "{}")
			if got.InvocationID != "i1" || got.FunctionID != "a::f" {
				t.Errorf("answer to %s of %s", got.InvocationID, got.FunctionID)
			}
			if diff := cmp.Diff(tc.want, string(got.Result)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			// Texts of encoding errors are not ours to fix.
			if got.Error != nil && tc.err != nil && tc.err.Message == "" {
				got.Error.Message = ""
			}
			if diff := cmp.Diff(tc.err, got.Error); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClient_passesInvocations(t *testing.T) {
	got := make(chan Invocation, 1)
	_, p, _ := startAdmitted(t, nil, handler(func(_ context.Context, inv Invocation) (json.RawMessage, error) {
		got <- inv
		return nil, nil
	}))
	next[*protocol.RegisterFunction](p)
	p.send(&protocol.InvokeFunction{
		InvocationID: "i1", FunctionID: "a::f", Data: json.RawMessage(`{"_caller_worker_id":"w9","n":1}`),
		Metadata: json.RawMessage(`{"tenant":"t"}`), Traceparent: "00-1", Baggage: "k=v",
	})
	inv := receive(t, got)
	want := Invocation{
		ID: "i1", FunctionID: "a::f", Data: json.RawMessage(`{"_caller_worker_id":"w9","n":1}`),
		Metadata: json.RawMessage(`{"tenant":"t"}`), Traceparent: "00-1", Baggage: "k=v",
	}
	if diff := cmp.Diff(want, inv, cmpopts.IgnoreUnexported(Invocation{})); diff != "" {
		t.Errorf("invocation (-want +got):\n%s", diff)
	}
	if inv.CallerWorkerID() != "w9" {
		t.Errorf("caller %q", inv.CallerWorkerID())
	}
	if reply := next[*protocol.InvocationResult](p); reply.Traceparent != "00-1" || reply.Baggage != "k=v" {
		t.Error("the answer does not echo the trace context")
	}
}

func TestInvocation_CallerWorkerID(t *testing.T) {
	for data, want := range map[string]string{
		`{"_caller_worker_id":"w1"}`: "w1", `{}`: "", `null`: "", `[1]`: "", `{"_caller_worker_id":7}`: "",
		`{"a":{"_caller_worker_id":"w2"},"_caller\u005fworker_id":"w\u0031"}`: "w1",
		// In another case it is a key of the caller's own, which may lie.
		`{"_caller_worker_id":"w1","_CALLER_worker_id":"w2"}`: "w1",
	} {
		for _, decoded := range []bool{false, true} {
			if got := (Invocation{Data: json.RawMessage(data), decoded: decoded}).CallerWorkerID(); got != want {
				t.Errorf("caller in %s is %q, want %q", data, got, want)
			}
		}
	}
	for _, broken := range []string{``, `{`, `{"_caller_worker_id":"w1"`} {
		if got := (Invocation{Data: json.RawMessage(broken)}).CallerWorkerID(); got != "" {
			t.Errorf("caller in %s is %q", broken, got)
		}
	}
}

func TestClient_registersWhileConnected(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	if got := p.invoke("i1", "a::f", "{}"); got.Error == nil || got.Error.Code != protocol.CodeFunctionNotFound {
		t.Fatalf("call of an unknown function: %+v", got.Error)
	}
	for _, answer := range []string{"1", "2"} {
		err := r.RegisterFunction(Function{ID: "a::f", Handler: func(context.Context, Invocation) (json.RawMessage, error) {
			return json.RawMessage(answer), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		next[*protocol.RegisterFunction](p)
		if got := p.invoke("i2", "a::f", "{}"); string(got.Result) != answer {
			t.Errorf("result %s, want %s", got.Result, answer)
		}
	}
	r.UnregisterFunction("a::f")
	r.UnregisterFunction("a::f")
	next[*protocol.UnregisterFunction](p)
	if got := p.invoke("i3", "a::f", "{}"); got.Error == nil {
		t.Error("an unregistered function still answers")
	}
	p.send(&protocol.RegistrationRejected{
		Code: protocol.CodeFunctionConflict, Namespace: "default", FunctionID: "a::f", OwnerWorkerID: "other",
	})
	event := r.await(t, FunctionRejected)
	var rejected *RejectedError
	if event.FunctionID != "a::f" || event.OwnerWorkerID != "other" || !errors.As(event.Err, &rejected) {
		t.Errorf("event %+v", event)
	}
	if !r.Connected() {
		t.Error("a function's conflict ended the connection")
	}
}

func TestClient_RegisterFunction_refuses(t *testing.T) {
	client, err := New(Options{URL: "ws://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]Function{
		"no id":            {Handler: echo},
		"no handler":       {ID: "a::f"},
		"a schema no JSON": {ID: "a::f", Handler: echo, RequestFormat: json.RawMessage("{")},
	} {
		if client.RegisterFunction(f) == nil {
			t.Errorf("a function with %s is accepted", name)
		}
	}
}

func TestClient_boundsHandlers(t *testing.T) {
	release := make(chan struct{})
	_, p, _ := startAdmitted(t, func(o *Options) { o.MaxConcurrentHandlers = 1 },
		handler(func(context.Context, Invocation) (json.RawMessage, error) { <-release; return nil, nil }))
	next[*protocol.RegisterFunction](p)
	p.send(&protocol.InvokeFunction{InvocationID: "i1", FunctionID: "a::f"})
	if got := p.invoke("i2", "a::f", "{}"); got.InvocationID != "i2" || got.Error == nil || got.Error.Code != CodeCapacity {
		t.Errorf("second call: %+v, want capacity", got)
	}
	close(release)
	if got := next[*protocol.InvocationResult](p); got.InvocationID != "i1" || got.Error != nil {
		t.Errorf("first call: %+v", got)
	}
}

func TestClient_handlersEndWithTheirConnection(t *testing.T) {
	ended := make(chan error, 1)
	_, p, e := startAdmitted(t, nil, handler(func(ctx context.Context, _ Invocation) (json.RawMessage, error) {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return json.RawMessage("1"), nil
	}))
	next[*protocol.RegisterFunction](p)
	p.send(&protocol.InvokeFunction{InvocationID: "i1", FunctionID: "a::f"})
	p.send(&protocol.Ping{})
	next[*protocol.Pong](p)
	p.drop()
	if cause := receive(t, ended); cause == nil {
		t.Error("the handler's context has no cause")
	}
	second := e.accept(t)
	next[*protocol.Reattach](second)
	second.admit("w2")
	next[*protocol.RegisterFunction](second)
	// The answer would come before the pong.
	second.send(&protocol.Ping{})
	next[*protocol.Pong](second)
}

func TestClient_drains(t *testing.T) {
	release := make(chan struct{})
	r, p, _ := startAdmitted(t, nil,
		handler(func(context.Context, Invocation) (json.RawMessage, error) {
			<-release
			return json.RawMessage("1"), nil
		}))
	next[*protocol.RegisterFunction](p)
	p.send(&protocol.InvokeFunction{InvocationID: "i1", FunctionID: "a::f"})
	p.send(&protocol.Ping{})
	next[*protocol.Pong](p)
	r.cancel()
	if got := next[*protocol.UnregisterFunction](p); got.ID != "a::f" {
		t.Errorf("took %s back", got.ID)
	}
	if got := p.invoke("i2", "a::f", "{}"); got.Error == nil || got.Error.Code != protocol.CodeInvocationStopped {
		t.Errorf("call while draining: %+v, want invocation_stopped", got)
	}
	close(release)
	if got := next[*protocol.InvocationResult](p); got.InvocationID != "i1" || string(got.Result) != "1" {
		t.Errorf("the running call was answered %+v", got)
	}
	if err := r.wait(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	if event := r.await(t, Disconnected); event.Err != nil {
		t.Errorf("an orderly end has the cause %v", event.Err)
	}
}

func TestClient_drainIsBounded(t *testing.T) {
	entered := make(chan struct{})
	r, p, _ := startAdmitted(t, func(o *Options) { o.DrainTimeout = 20 * time.Millisecond },
		handler(func(ctx context.Context, _ Invocation) (json.RawMessage, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		}))
	p.send(&protocol.InvokeFunction{InvocationID: "i1", FunctionID: "a::f"})
	receiveClosed(t, entered)
	r.cancel()
	if err := r.wait(t); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestClient_slowSubscriberDoesNotBlockTheReader(t *testing.T) {
	block := make(chan struct{})
	r, p, _ := startAdmitted(t, nil, func(c *Client) {
		c.Subscribe(func(e Event) {
			if e.Kind == TriggerRejected {
				<-block
			}
		})
	})
	for range 100 {
		p.send(&protocol.TriggerRegistrationResult{
			ID: "t1", TriggerType: "x", FunctionID: "a::f",
			Error: &protocol.ErrorBody{Code: protocol.CodeTriggerRegistrationFailed, Message: "no"},
		})
	}
	p.send(&protocol.Ping{})
	next[*protocol.Pong](p)
	event := r.await(t, TriggerRejected)
	if event.TriggerID != "t1" || RemoteCode(event.Err) != protocol.CodeTriggerRegistrationFailed {
		t.Errorf("event %+v", event)
	}
	close(block)
}
