package shim

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// TestOnTheWire has the engine between a caller and the shim.
func TestOnTheWire(t *testing.T) {
	url := startEngine(t)
	operator := connect(t, url, DefaultWorkerName)
	caller := connect(t, url, "caller")
	w := newWorld(t, func(o *Options) { o.Bus = operator })
	w.results.set(settle(Outcome{Stdout: "hello\n", Success: true}))

	eventually(t, "a published run", func() bool {
		_, err := caller.FunctionInfo(t.Context(), "sandbox-code-runner::run", "")
		return err == nil
	})
	got := ask(t, caller, "run", `{"code":"1","lang":"node"}`)
	if want := `{"stdout":"hello\n","stderr":"","exit_code":0,"success":true,"duration_ms":0}`; got != want {
		t.Errorf("run answers %s, want %s", got, want)
	}
	want := `invocation_failed: handler error: sandbox-code-runner::runtime_not_found: unknown runtime_id rt-x`
	if got := ask(t, caller, "run", `{"code":"1","runtime_id":"rt-x"}`); got != want {
		t.Errorf("run answers %s, want %s", got, want)
	}

	foreign := bus.Function{ID: "shop::price", Handler: func(context.Context, bus.Invocation) (json.RawMessage, error) { return nil, nil }}
	if err := caller.RegisterFunction(foreign); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the foreign function", func() bool {
		_, err := caller.FunctionInfo(t.Context(), foreign.ID, "")
		return err == nil
	})
	for id, want := range map[string]string{
		"shop::price": "invocation_failed: handler error: sandbox-code-runner::invalid_request: function id shop::price is already registered",
		"shop::tax":   `{"function_id":"shop::tax","registered":true}`,
	} {
		payload, err := json.Marshal(registration(id))
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(t, caller, "register_function", string(payload)); !strings.HasPrefix(got, want) {
			t.Errorf("registering %s answers %s, want %s", id, got, want)
		}
	}
	if diff := cmp.Diff(`{"namespace":"shop::","torn_down":true,"unregistered":["shop::tax"]}`, ask(t, caller, "teardown", `{"namespace":"shop"}`)); diff != "" {
		t.Errorf("teardown (-want +got):\n%s", diff)
	}
}

// ask returns the answer, or the error as its caller reads it.
func ask(t *testing.T, caller *bus.Client, function, payload string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := caller.Call(ctx, bus.Call{FunctionID: "sandbox-code-runner::" + function, Data: json.RawMessage(payload)})
	var remote *bus.RemoteError
	if errors.As(err, &remote) {
		return remote.Error()
	}
	if err != nil {
		t.Fatalf("calling %s: %v", function, err)
	}
	return string(answer)
}

func startEngine(t *testing.T) (url string) {
	t.Helper()
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
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

func connect(t *testing.T, url, name string) *bus.Client {
	t.Helper()
	c, err := bus.New(bus.Options{URL: url, Name: name, DrainTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("worker %s: %v", name, err)
		}
	})
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.WaitConnected(waiting); err != nil {
		t.Fatalf("worker %s: %v", name, err)
	}
	return c
}
