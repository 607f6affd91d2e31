package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
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

// TestEventsOnTheWire has the engine between the shim and its subscribers.
func TestEventsOnTheWire(t *testing.T) {
	url := startEngine(t)
	listener := connect(t, url, "listener")
	got := make(chan string, 16)
	listen(t, listener, "listener::hear", func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
		var e event
		if err := json.Unmarshal(inv.Data, &e); err != nil {
			t.Errorf("event %s: %v", inv.Data, err)
		}
		got <- fmt.Sprint(e.Kind, " ", e.Sequence)
		return nil, errors.New("a subscriber that fails harms nobody")
	})
	w := newWorld(t, func(o *Options) { o.Bus = connect(t, url, DefaultWorkerName) })
	eventually(t, "the subscription, which waited for the type", w.shim.events.hasSubscribers)

	caller := connect(t, url, "caller")
	eventually(t, "a published run", func() bool {
		_, err := caller.FunctionInfo(t.Context(), "sandbox-code-runner::run", "")
		return err == nil
	})
	ask(t, caller, "run", `{"code":"1","lang":"node","keep":true}`)
	ask(t, caller, "register_function", string(mustJSON(t, registration("shop::tax"))))
	seen := map[string]bool{}
	for range 4 {
		seen[<-got] = true
	}
	// The engine may hand calls over in another order than they were sent.
	want := map[string]bool{"runtime_created 1": true, "run_settled 2": true, "runtime_created 3": true, "function_registered 4": true}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	listener.UnregisterTrigger("hear")
	eventually(t, "the end of the subscription", func() bool { return !w.shim.events.hasSubscribers() })
	ask(t, caller, "run", `{"code":"1","lang":"node"}`)
	if len(got) != 0 {
		t.Errorf("heard %s after the end", <-got)
	}
}

func listen(t *testing.T, worker *bus.Client, id string, handler bus.Handler) {
	t.Helper()
	if err := worker.RegisterFunction(bus.Function{ID: id, Handler: handler}); err != nil {
		t.Fatal(err)
	}
	if err := worker.RegisterTrigger(bus.Trigger{ID: "hear", Type: "sandbox-code-runner::event", FunctionID: id}); err != nil {
		t.Fatal(err)
	}
}

// TestCallerLeaves: a run ends with the connection that asked for it, and leaves
// nothing (contracts/code-runner.md §18 A33).
func TestCallerLeaves(t *testing.T) {
	url := startEngine(t)
	w := newWorld(t, func(o *Options) { o.Bus = connect(t, url, DefaultWorkerName) })
	w.results.set(hang)
	stays, leaves := connect(t, url, "stays"), start(t, url, "leaves")
	eventually(t, "a published run and the watch of workers", func() bool {
		_, err := stays.FunctionInfo(t.Context(), "sandbox-code-runner::run", "")
		bound, boundErr := stays.RegisteredTriggers(t.Context(), "sandbox-code-runner::on-worker-change")
		return err == nil && boundErr == nil && len(bound) == 1
	})
	answers := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = leaves.client.Call(ctx, bus.Call{FunctionID: "sandbox-code-runner::run", Data: json.RawMessage(`{"code":"1","lang":"node","keep":true}`)})
	}()
	eventually(t, "a run of the one that leaves", func() bool { return len(w.results.all()) == 1 })
	go func() { answers <- ask(t, stays, "run", `{"code":"1","lang":"node"}`) }()
	eventually(t, "a run of the one that stays", func() bool { return len(w.results.all()) == 2 })

	leaves.stop()
	eventually(t, "the end of its run and runtime", func() bool {
		// Without a drain: the calls that are ending add to what is to be drained.
		var runs v1alpha1.SandboxRunList
		var runtimes v1alpha1.SandboxRuntimeList
		w.list(&runs)
		w.list(&runtimes)
		return len(runs.Items) == 1 && len(runtimes.Items) == 0
	})
	select {
	case answer := <-answers:
		t.Errorf("the other run ended too: %s", answer)
	default:
	}
	w.results.set(settle(Outcome{Success: true}))
	if answer := ask(t, stays, "run", `{"code":"1","lang":"node"}`); !strings.Contains(answer, `"success":true`) {
		t.Errorf("a later run answers %s", answer)
	}
	for _, id := range w.shim.callers.ids() {
		w.shim.callers.end(id)
	}
	wantText(t, <-answers, "engine: the caller disconnected")
}

// ids are the workers for whom something goes on.
func (c *callers) ids() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.calls))
}

// TestWorkerChange_forged: nobody but the engine can say that a worker left.
func TestWorkerChange_forged(t *testing.T) {
	for name, tc := range map[string]struct {
		payload string
		listed  []string
		ends    bool
	}{
		"the engine says so":          {`{"event":"worker_disconnected","worker_id":"w1"}`, nil, true},
		"a worker says so":            {`{"event":"worker_disconnected","worker_id":"w1","_caller_worker_id":"w2"}`, nil, false},
		"the worker is there":         {`{"event":"worker_disconnected","worker_id":"w1"}`, []string{"w1"}, false},
		"another left":                {`{"event":"worker_disconnected","worker_id":"w2"}`, nil, false},
		"the worker came":             {`{"event":"worker_connected","worker_id":"w1"}`, nil, false},
		"a payload that says nothing": {`[]`, nil, false},
		"a worker id of another type": {`{"event":"worker_disconnected","worker_id":1}`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bus.workers = tc.listed
			ctx, leave := w.shim.callers.enter(withCaller(t.Context(), "w1"))
			defer leave()
			handler := w.bus.handler("sandbox-code-runner::on-worker-change")
			if _, err := handler(t.Context(), bus.Invocation{Data: json.RawMessage(tc.payload)}); err != nil {
				t.Error(err)
			}
			if ended := ctx.Err() != nil; ended != tc.ends {
				t.Errorf("the call ended: %t, want %t", ended, tc.ends)
			}
		})
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
	return start(t, url, name).client
}

// worker is a connection that the test may end before its own end.
type worker struct {
	client *bus.Client
	stop   func()
}

func start(t *testing.T, url, name string) worker {
	t.Helper()
	c, err := bus.New(bus.Options{URL: url, Name: name, DrainTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancelRun := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancelRun()
		if err := <-ended; err != nil {
			t.Errorf("worker %s: %v", name, err)
		}
	})
	t.Cleanup(stop)
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.WaitConnected(waiting); err != nil {
		t.Fatalf("worker %s: %v", name, err)
	}
	return worker{client: c, stop: stop}
}
