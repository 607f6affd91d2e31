package publish

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// startEngine runs the embedded engine until the test ends.
func startEngine(t *testing.T) string {
	t.Helper()
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	return e.URL("workers")
}

// connect runs a worker until the test ends.
func connect(t *testing.T, url, name string) *bus.Client {
	t.Helper()
	client, err := bus.New(bus.Options{URL: url, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("worker %s: %v", name, err)
		}
	})
	waiting, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := client.WaitConnected(waiting); err != nil {
		t.Fatal(err)
	}
	return client
}

func ownerOf(t *testing.T, p *Publisher, id string) Owner {
	t.Helper()
	owner, err := p.Owner(t.Context(), id)
	if err != nil {
		t.Fatalf("asking for the owner of %s: %v", id, err)
	}
	return owner
}

func TestPublisher_lifeOfAFunction(t *testing.T) {
	url, w := startEngine(t), newCallWorld(t)
	w.boot("0")
	w.answers(t, func(_ context.Context, call wire.CallRequest) (wire.Reply, error) {
		return wire.Reply{Result: json.RawMessage(`{"from":"` + call.Context.FunctionID + `"}`)}, nil
	})
	operator := connect(t, url, "sandbox-code-runner")
	publisher, caller := NewPublisher(operator, w.Server, "sandbox-code-runner"), connect(t, url, "caller")
	if !publisher.Connected() || publisher.Session() == "" {
		t.Errorf("connected %t in session %q", publisher.Connected(), publisher.Session())
	}
	if got := ownerOf(t, publisher, "shop::price"); got != (Owner{}) {
		t.Errorf("before, the owner is %+v", got)
	}
	err := publisher.Publish(Publication{
		FunctionID: "shop::price", Description: "Tells a price", RequestFormat: json.RawMessage(`{"type":"object"}`),
		ResponseFormat: json.RawMessage(`{"type":"object"}`), Metadata: json.RawMessage(`{"team":"shop"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Owner{Found: true, Ours: true, WorkerName: "sandbox-code-runner"}
	eventually(t, "the engine to name us", func() bool { return ownerOf(t, publisher, "shop::price") == want })

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := caller.Call(ctx, bus.Call{FunctionID: "shop::price"})
	if err != nil || string(answer) != `{"from":"shop::price"}` {
		t.Errorf("the call got %s, %v", answer, err)
	}
	info, err := caller.FunctionInfo(ctx, "shop::price", "default")
	if err != nil || info.Description != "Tells a price" {
		t.Errorf("the catalog shows %+v, %v", info, err)
	}

	publisher.Unpublish("shop::price")
	eventually(t, "the function to go", func() bool { return ownerOf(t, publisher, "shop::price") == Owner{} })
	if _, bound := w.table.Binding("shop::price"); bound {
		t.Error("the binding outlived the function")
	}
	if _, err := caller.Call(ctx, bus.Call{FunctionID: "shop::price"}); !bus.IsNotFound(err) {
		t.Errorf("a call of what is gone: %v", err)
	}
}

// TestPublisher_errorsAsCallersSeeThem crosses the bus once, since the SDK of the
// original framed the text like this (contracts/code-runner.md §3.5).
func TestPublisher_errorsAsCallersSeeThem(t *testing.T) {
	url, w := startEngine(t), newCallWorld(t)
	w.boot("0")
	w.answers(t, func(context.Context, wire.CallRequest) (wire.Reply, error) {
		return wire.Reply{Error: &wire.Failure{Kind: wire.Thrown, Type: "ValueError", Message: "no", Stack: "line 1"}}, nil
	})
	publisher := NewPublisher(connect(t, url, "sandbox-code-runner"), w.Server, "sandbox-code-runner")
	if err := publisher.Publish(Publication{FunctionID: "shop::price"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the engine to name us", func() bool { return ownerOf(t, publisher, "shop::price").Ours })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := connect(t, url, "caller").Call(ctx, bus.Call{FunctionID: "shop::price"})
	var remote *bus.RemoteError
	if !errors.As(err, &remote) {
		t.Fatalf("the error is %v", err)
	}
	want := &bus.RemoteError{
		Code:       "invocation_failed",
		Message:    "handler error: sandbox-code-runner::handler_error: ValueError: no",
		Stacktrace: "line 1",
	}
	if diff := cmp.Diff(want, remote); diff != "" {
		t.Errorf("the caller sees (-want +got):\n%s", diff)
	}
}

func TestPublisher_ownersThatAreNotUs(t *testing.T) {
	url, w := startEngine(t), newCallWorld(t)
	publisher := NewPublisher(connect(t, url, "sandbox-code-runner"), w.Server, "sandbox-code-runner")
	err := connect(t, url, "rival").RegisterFunction(bus.Function{
		ID: "shop::price", Handler: func(context.Context, bus.Invocation) (json.RawMessage, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Owner{Found: true, WorkerName: "rival"}
	eventually(t, "the rival to own the id", func() bool { return ownerOf(t, publisher, "shop::price") == want })
}

func TestPublisher_triggers(t *testing.T) {
	url, w := startEngine(t), newCallWorld(t)
	w.boot("0")
	publisher := NewPublisher(connect(t, url, "sandbox-code-runner"), w.Server, "sandbox-code-runner")
	if err := publisher.Publish(Publication{FunctionID: "shop::price"}); err != nil {
		t.Fatal(err)
	}
	bound := func() map[string]bool {
		t.Helper()
		ids, err := publisher.BoundTriggers(t.Context(), "shop::price")
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	hourly := Trigger{ID: "hourly", Type: "cron", FunctionID: "shop::price", Config: json.RawMessage(`{"expression":"0 0 * * * *"}`)}
	nobodys := Trigger{ID: "nobodys", Type: "no-such-type", FunctionID: "shop::price", Config: json.RawMessage(`{}`)}
	for _, trigger := range []Trigger{hourly, nobodys, hourly} {
		if err := publisher.BindTrigger(trigger); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the engine to list the trigger", func() bool { return bound()["hourly"] })
	if diff := cmp.Diff(map[string]bool{"hourly": true}, bound()); diff != "" {
		t.Errorf("bound triggers (-want +got):\n%s", diff)
	}
	publisher.UnbindTrigger("hourly")
	eventually(t, "the trigger to go", func() bool { return len(bound()) == 0 })
}

func TestPublisher_withoutEngine(t *testing.T) {
	client, err := bus.New(bus.Options{URL: "ws://127.0.0.1:9", Name: "sandbox-code-runner", CallTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	publisher := NewPublisher(client, newCallWorld(t).Server, "sandbox-code-runner")
	if _, err := publisher.Owner(t.Context(), "shop::price"); !bus.IsNotConnected(err) {
		t.Errorf("asking for an owner: %v", err)
	}
	if _, err := publisher.BoundTriggers(t.Context(), "shop::price"); !bus.IsNotConnected(err) {
		t.Errorf("asking for triggers: %v", err)
	}
	if publisher.Connected() || publisher.Session() != "" {
		t.Error("a client that never ran is connected")
	}
}
