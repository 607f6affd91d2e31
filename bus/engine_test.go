package bus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

const patience = 20 * time.Second

// startEngine runs the embedded engine and returns its workers' URL.
func startEngine(t *testing.T, adjust ...func(*engine.Config)) string {
	t.Helper()
	return runEngine(t, adjust...).URL("workers")
}

func runEngine(t *testing.T, adjust ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	config := engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}}
	for _, a := range adjust {
		a(&config)
	}
	e, err := engine.New(config)
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
	return e
}

type worker struct {
	*bus.Client
	events chan bus.Event
	stop   func() error
}

// startWorker runs a client until the test ends, or stop is called.
func startWorker(t *testing.T, options bus.Options) *worker {
	t.Helper()
	options.Backoff = bus.Backoff{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond}
	client, err := bus.New(options)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{Client: client, events: make(chan bus.Event, 1024)}
	client.Subscribe(func(e bus.Event) { w.events <- e })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		ended = client.Run(ctx)
	}()
	w.stop = func() error {
		cancel()
		<-done
		return ended
	}
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Errorf("Run of %s: %v", options.Name, err)
		}
	})
	return w
}

func (w *worker) connected(t *testing.T) *worker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.WaitConnected(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *worker) await(t *testing.T, kind bus.EventKind) bus.Event {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case event := <-w.events:
			if event.Kind == kind {
				return event
			}
		case <-deadline:
			t.Fatalf("no event %s", kind)
		}
	}
}

type greeting struct {
	Name string `json:"name"`
}

func greeter() bus.Function {
	return bus.TypedFunction("hello::greet", "Greets", func(_ context.Context, g greeting) (string, error) {
		if g.Name == "" {
			return "", &bus.RemoteError{Code: "nameless", Message: "who?"}
		}
		return "hello " + g.Name, nil
	})
}

func TestClient_againstTheEngine_calls(t *testing.T) {
	url := startEngine(t, func(c *engine.Config) { c.DisableQueue = true })
	server := startWorker(t, bus.Options{URL: url, Name: "server"})
	if err := server.RegisterFunction(greeter()); err != nil {
		t.Fatal(err)
	}
	server.connected(t)
	// Frames of one worker are handled in order, so that its own question comes
	// after its registration.
	if _, err := server.FunctionInfo(t.Context(), "hello::greet", ""); err != nil {
		t.Fatal(err)
	}
	caller := startWorker(t, bus.Options{URL: url, Name: "caller"}).connected(t)

	info, err := caller.FunctionInfo(t.Context(), "hello::greet", "")
	if err != nil || info.WorkerName != "server" || info.Description != "Greets" {
		t.Fatalf("info %+v, %v", info, err)
	}
	got, err := bus.Invoke[string](t.Context(), caller.Client, "hello::greet", greeting{"you"})
	if diff := cmp.Diff("hello you", got); diff != "" || err != nil {
		t.Errorf("greeting (-want +got):\n%s%v", diff, err)
	}
	if _, err := caller.Call(t.Context(), bus.Call{FunctionID: "hello::greet"}); bus.RemoteCode(err) != "nameless" {
		t.Errorf("refused call: %v", err)
	}
	_, err = bus.Invoke[string](t.Context(), caller.Client, "hello::greet", map[string]int{"name": 1})
	if bus.RemoteCode(err) != protocol.CodeInvalidRequest {
		t.Errorf("mistyped call: %v", err)
	}
	if _, err := caller.Call(t.Context(), bus.Call{FunctionID: "hello::nobody"}); !bus.IsNotFound(err) {
		t.Errorf("unknown function: %v", err)
	}
	if _, err := caller.Enqueue(t.Context(), "mail", bus.Call{FunctionID: "hello::greet"}); bus.RemoteCode(err) != protocol.CodeEnqueueError {
		t.Errorf("enqueue without a queue worker: %v", err)
	}

	server.UnregisterFunction("hello::greet")
	// A call of the same worker is behind the unregistration.
	if _, err := server.FunctionInfo(t.Context(), "hello::greet", ""); !bus.IsNotFound(err) {
		t.Errorf("an unregistered function is still known: %v", err)
	}
}

func TestClient_againstTheEngine_knowsItsCaller(t *testing.T) {
	url := startEngine(t)
	callers := make(chan string, 1)
	server := startWorker(t, bus.Options{URL: url, Name: "server"})
	err := server.RegisterFunction(bus.Function{ID: "a::void", Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
		callers <- inv.CallerWorkerID()
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	server.connected(t)
	if err := server.Void(t.Context(), bus.Call{FunctionID: "a::void"}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-callers:
		if got != server.WorkerID() {
			t.Error("the caller is not the worker itself")
		}
	case <-time.After(patience):
		t.Error("the void call did not arrive")
	}
}

func TestClient_againstTheEngine_conflicts(t *testing.T) {
	url := startEngine(t)
	first := startWorker(t, bus.Options{URL: url, Name: "same"})
	if err := first.RegisterFunction(greeter()); err != nil {
		t.Fatal(err)
	}
	first.connected(t)
	if _, err := first.FunctionInfo(t.Context(), "hello::greet", ""); err != nil {
		t.Fatal(err)
	}

	waiting := startWorker(t, bus.Options{URL: url, Name: "same", RetryNameConflict: true})
	if event := waiting.await(t, bus.WorkerRejected); event.OwnerWorkerID != first.WorkerID() {
		t.Error("the rejection does not name the owner")
	}
	if waiting.Connected() {
		t.Error("a rejected worker counts as connected")
	}
	stranger := startWorker(t, bus.Options{URL: url, Name: "stranger"})
	if err := stranger.RegisterFunction(greeter()); err != nil {
		t.Fatal(err)
	}
	if event := stranger.await(t, bus.FunctionRejected); event.FunctionID != "hello::greet" {
		t.Errorf("event %+v", event)
	}

	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	waiting.connected(t)

	client, err := bus.New(bus.Options{URL: url, Name: "same"})
	if err != nil {
		t.Fatal(err)
	}
	var rejected *bus.RejectedError
	if err := client.Run(t.Context()); !errors.As(err, &rejected) {
		t.Errorf("Run with a taken name: %v", err)
	}
}

func TestClient_againstTheEngine_successorTakesOver(t *testing.T) {
	url := startEngine(t)
	former := startWorker(t, bus.Options{URL: url, Name: "leader", RetryNameConflict: true})
	if err := former.RegisterFunction(greeter()); err != nil {
		t.Fatal(err)
	}
	former.connected(t)
	// The former process is still connected, as it would be after a crash that
	// the engine has not noticed; only the pair tells that it may be evicted.
	successor := startWorker(t, bus.Options{URL: url, Name: "leader", Reattach: former.Reattach()})
	if err := successor.RegisterFunction(greeter()); err != nil {
		t.Fatal(err)
	}
	successor.connected(t)
	if event := former.await(t, bus.Disconnected); event.Err == nil {
		t.Error("the former worker was not cut off")
	}
	info, err := successor.FunctionInfo(t.Context(), "hello::greet", "")
	if err != nil || info.WorkerName != "leader" {
		t.Errorf("info %+v, %v", info, err)
	}
}

func TestClient_againstTheEngine_triggers(t *testing.T) {
	url := startEngine(t)
	consumer := startWorker(t, bus.Options{URL: url, Name: "consumer"})
	provider := startWorker(t, bus.Options{URL: url, Name: "provider"})
	bound, released := make(chan bus.Binding, 1), make(chan bus.Binding, 1)
	delivered := make(chan string, 1)
	err := errors.Join(
		provider.RegisterTriggerType(bus.TriggerType{
			ID: "mailbox", Description: "Mail came",
			Register: func(_ context.Context, b bus.Binding) error {
				if string(b.Config) != `{"box":"in"}` {
					return errors.New("mailbox unknown")
				}
				bound <- b
				return nil
			},
			Unregister: func(b bus.Binding) { released <- b },
		}),
		consumer.RegisterFunction(bus.Function{ID: "inbox::handle", Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
			delivered <- string(inv.Metadata)
			return nil, nil
		}}),
		consumer.RegisterTrigger(bus.Trigger{
			ID: "t-good", Type: "mailbox", FunctionID: "inbox::handle",
			Config: json.RawMessage(`{"box":"in"}`), Metadata: json.RawMessage(`{"k":1}`),
		}),
		consumer.RegisterTrigger(bus.Trigger{ID: "t-bad", Type: "mailbox", FunctionID: "inbox::handle"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	provider.connected(t)
	consumer.connected(t)

	if event := consumer.await(t, bus.TriggerRejected); event.TriggerID != "t-bad" {
		t.Errorf("event %+v", event)
	}
	binding := take(t, bound)
	err = provider.Void(t.Context(), bus.Call{FunctionID: binding.FunctionID, Metadata: binding.Metadata, Namespace: binding.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	if got := take(t, delivered); got != `{"k":1}` {
		t.Errorf("delivered with metadata %s", got)
	}
	triggers, err := consumer.RegisteredTriggers(t.Context(), "inbox::handle")
	if err != nil || len(triggers) != 1 || triggers[0].ID != "t-good" || triggers[0].TriggerType != "mailbox" {
		t.Errorf("registered triggers %+v, %v", triggers, err)
	}
	consumer.UnregisterTrigger("t-good")
	if got := take(t, released); got.ID != "t-good" {
		t.Errorf("released %s", got.ID)
	}
}

func TestClient_againstTheEngine_channels(t *testing.T) {
	client := startWorker(t, bus.Options{URL: startEngine(t), Name: "piper"}).connected(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pair, err := client.CreateChannel(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := client.OpenWriter(ctx, pair.Writer)
	if err != nil {
		t.Fatal(err)
	}
	payload := bytes.Repeat([]byte("sandbox"), 1<<20)
	written := make(chan error, 1)
	go func() {
		_, err := writer.Write(payload)
		written <- errors.Join(err, writer.Close())
	}()
	reader, err := client.OpenReader(ctx, pair.Reader)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got, err := io.ReadAll(reader)
	if err != nil || !bytes.Equal(payload, got) {
		t.Errorf("read %d of %d bytes, %v", len(got), len(payload), err)
	}
	if err := take(t, written); err != nil {
		t.Errorf("writing: %v", err)
	}
	pair.Reader.ChannelID = "unknown"
	if _, err := client.OpenReader(ctx, pair.Reader); !errors.Is(err, bus.ErrNoChannel) {
		t.Errorf("unknown channel: %v", err)
	}
}

func take[T any](t *testing.T, values <-chan T) T {
	t.Helper()
	select {
	case value := <-values:
		return value
	case <-time.After(patience):
		t.Fatal("waited in vain")
	}
	panic("unreachable")
}
