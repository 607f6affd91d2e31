package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// answer is what a Call came to.
type answer struct {
	result json.RawMessage
	err    error
}

func callAsync(ctx context.Context, c *Client, call Call) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		result, err := c.Call(ctx, call)
		done <- answer{result, err}
	}()
	return done
}

func TestClient_Call(t *testing.T) {
	tests := map[string]struct {
		reply protocol.InvocationResult
		want  string
		code  string
	}{
		"a result is returned":             {protocol.InvocationResult{Result: json.RawMessage(`{"a":1}`)}, `{"a":1}`, ""},
		"an absent result is nil":          {protocol.InvocationResult{}, "", ""},
		"a null result is nil":             {protocol.InvocationResult{Result: json.RawMessage("null")}, "", ""},
		"an error keeps its code":          {protocol.InvocationResult{Error: &protocol.ErrorBody{Code: "odd", Message: "m"}}, "", "odd"},
		"an error beats a result":          {protocol.InvocationResult{Result: json.RawMessage("1"), Error: &protocol.ErrorBody{Code: "odd"}}, "", "odd"},
		"large results are taken in whole": {protocol.InvocationResult{Result: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}, `"` + strings.Repeat("x", 1<<20) + `"`, ""},
	}
	r, p, _ := startAdmitted(t, nil)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			done := callAsync(t.Context(), r.Client, Call{FunctionID: "a::f"})
			reply := tc.reply
			reply.InvocationID = next[*protocol.InvokeFunction](p).InvocationID
			p.send(&reply)
			got := receive(t, done)
			if diff := cmp.Diff(tc.want, string(got.result)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if RemoteCode(got.err) != tc.code || (got.err != nil) != (tc.code != "") {
				t.Errorf("error %v, want code %q", got.err, tc.code)
			}
		})
	}
}

func TestClient_callFrames(t *testing.T) {
	namespace := "shop"
	full := Call{
		FunctionID: "a::f", Data: json.RawMessage(`[1]`), Metadata: json.RawMessage(`{"m":2}`),
		Namespace: namespace, Traceparent: "00-1", Baggage: "k=v",
	}
	r, p, _ := startAdmitted(t, nil)

	ctx, cancel := context.WithCancel(t.Context())
	done := callAsync(ctx, r.Client, full)
	got := next[*protocol.InvokeFunction](p)
	want := &protocol.InvokeFunction{
		InvocationID: got.InvocationID, FunctionID: "a::f", Data: full.Data, Metadata: full.Metadata,
		Namespace: &namespace, Traceparent: "00-1", Baggage: "k=v",
	}
	if diff := cmp.Diff(want, got); diff != "" || got.InvocationID == "" {
		t.Errorf("call frame (-want +got):\n%s", diff)
	}
	cancel()
	if got := receive(t, done); !errors.Is(got.err, context.Canceled) {
		t.Errorf("canceled call: %v", got.err)
	}

	if err := r.Void(t.Context(), Call{FunctionID: "a::f"}); err != nil {
		t.Fatal(err)
	}
	wantVoid := &protocol.InvokeFunction{
		FunctionID: "a::f", Data: json.RawMessage("{}"), Action: &protocol.Action{Type: protocol.ActionVoid},
	}
	if diff := cmp.Diff(wantVoid, next[*protocol.InvokeFunction](p)); diff != "" {
		t.Errorf("void frame (-want +got):\n%s", diff)
	}
}

func TestClient_Enqueue(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	type receipt struct {
		id  string
		err error
	}
	enqueue := func(reply string) receipt {
		done := make(chan receipt, 1)
		go func() {
			id, err := r.Enqueue(t.Context(), "mail", Call{FunctionID: "a::f"})
			done <- receipt{id, err}
		}()
		call := next[*protocol.InvokeFunction](p)
		if diff := cmp.Diff(&protocol.Action{Type: protocol.ActionEnqueue, Queue: "mail"}, call.Action); diff != "" {
			t.Errorf("action (-want +got):\n%s", diff)
		}
		p.respond(call, reply)
		return receive(t, done)
	}
	if got := enqueue(`{"messageReceiptId":"m1"}`); got.id != "m1" || got.err != nil {
		t.Errorf("receipt %q, error %v", got.id, got.err)
	}
	if got := enqueue(`{}`); got.err == nil {
		t.Error("an answer without a receipt is accepted")
	}
	if _, err := r.Enqueue(t.Context(), "", Call{FunctionID: "a::f"}); err == nil {
		t.Error("an empty queue name is accepted")
	}
}

func TestClient_callTimesOut(t *testing.T) {
	r, p, _ := startAdmitted(t, func(o *Options) { o.CallTimeout = 20 * time.Millisecond })
	_, err := r.Call(t.Context(), Call{FunctionID: "a::f"})
	if !IsTimeout(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call: %v, want a timeout", err)
	}
	late := next[*protocol.InvokeFunction](p)
	p.respond(late, "1")
	// The late answer must not reach the next call.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := callAsync(ctx, r.Client, Call{FunctionID: "a::f"})
	p.respond(next[*protocol.InvokeFunction](p), "2")
	if got := receive(t, done); string(got.result) != "2" {
		t.Errorf("result %s, error %v, want 2", got.result, got.err)
	}
}

func TestClient_callFailsWithItsConnection(t *testing.T) {
	r, p, e := startAdmitted(t, nil)
	done := callAsync(t.Context(), r.Client, Call{FunctionID: "a::f"})
	call := next[*protocol.InvokeFunction](p)
	p.drop()
	if got := receive(t, done); !IsConnectionLost(got.err) {
		t.Errorf("Call: %v, want a lost connection", got.err)
	}
	second := e.accept(t)
	next[*protocol.Reattach](second)
	second.admit("w2")
	r.await(t, Connected)
	// An answer on another connection belongs to nobody.
	second.respond(call, "1")
	again := callAsync(t.Context(), r.Client, Call{FunctionID: "a::f"})
	second.respond(next[*protocol.InvokeFunction](second), "2")
	if got := receive(t, again); string(got.result) != "2" {
		t.Errorf("result %s, error %v, want 2", got.result, got.err)
	}
}

func TestClient_unsendableCalls(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	for name, data := range map[string]json.RawMessage{
		"no JSON":   json.RawMessage("{"),
		"no UTF-8":  json.RawMessage("\"\xff\""),
		"too large": json.RawMessage(`"` + strings.Repeat("x", maxFrame) + `"`),
	} {
		_, err := r.Call(t.Context(), Call{FunctionID: "a::f", Data: data})
		if err == nil || IsTimeout(err) {
			t.Errorf("a payload that is %s: %v", name, err)
		}
		var tooLarge *TooLargeError
		if errors.As(err, &tooLarge) != (name == "too large") {
			t.Errorf("a payload that is %s: %v", name, err)
		}
	}
	p.send(&protocol.Ping{})
	next[*protocol.Pong](p)
}

func TestClient_callsConcurrently(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	const calls = 300
	go func() {
		for range calls {
			call, ok := (<-p.frames).(*protocol.InvokeFunction)
			if !ok {
				t.Error("another frame than a call")
				return
			}
			p.respond(call, string(call.Data))
		}
	}()
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			got, err := Invoke[int](t.Context(), r.Client, "a::f", i)
			if err != nil || got != i {
				t.Errorf("call %d: %d, %v", i, got, err)
			}
		})
	}
	all.Wait()
}

func TestOutbox_dropsCallsThatGaveUp(t *testing.T) {
	box := newOutbox(func(err error) { t.Errorf("failed: %v", err) })
	expired, cancel := context.WithCancel(t.Context())
	if err := box.send(expired, nil, []byte("late")); err != nil {
		t.Fatal(err)
	}
	cancel()
	box.push([]byte("now"))
	batch, err := box.next(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, p := range batch {
		if p.worthSending() {
			sent = append(sent, string(p.frame))
		}
	}
	if diff := cmp.Diff([]string{"now"}, sent); diff != "" {
		t.Errorf("frames sent (-want +got):\n%s", diff)
	}
}

func TestOutbox_isBounded(t *testing.T) {
	var failure error
	box := newOutbox(func(err error) { failure = err })
	for i := range maxWaitingFrames {
		if err := box.send(t.Context(), nil, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := box.send(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("send into a full box: %v, want to wait", err)
	}
	over := make(chan struct{})
	close(over)
	if err := box.send(t.Context(), over, nil); !IsNotConnected(err) {
		t.Errorf("send after the connection: %v, want ErrNotConnected", err)
	}
	for range maxQueuedFrames {
		box.push(nil)
	}
	if !errors.Is(failure, errOverflow) {
		t.Errorf("overflow: %v", failure)
	}
}
