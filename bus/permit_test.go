package bus

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func TestClient_withoutPermit(t *testing.T) {
	var denied atomic.Bool
	var served atomic.Int32
	r, p, e := startAdmitted(t, func(o *Options) { o.Permit = func() bool { return !denied.Load() } }, func(c *Client) {
		err := c.RegisterFunction(Function{ID: "a::f", Handler: func(context.Context, Invocation) (json.RawMessage, error) {
			served.Add(1)
			return nil, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	})
	next[*protocol.RegisterFunction](p)

	denied.Store(true)
	// What the engine sent while the process was paused waits in the socket.
	p.send(&protocol.InvokeFunction{InvocationID: "late", FunctionID: "a::f", Data: json.RawMessage(`1`)})
	if event := r.await(t, Disconnected); !errors.Is(event.Err, errNotPermitted) {
		t.Errorf("the connection ended with %v", event.Err)
	}
	if _, err := r.Call(t.Context(), Call{FunctionID: "x::y"}); !errors.Is(err, ErrNotConnected) {
		t.Errorf("a call without a permit: %v", err)
	}
	select {
	case <-e.peers:
		t.Error("it connected without a permit")
	case <-time.After(10 * r.options.Backoff.Initial):
	}
	if served.Load() != 0 {
		t.Error("a call was served without a permit")
	}

	denied.Store(false)
	again := e.accept(t)
	next[*protocol.Reattach](again)
	again.admit("w2")
	r.await(t, Connected)
}
