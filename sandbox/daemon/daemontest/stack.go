package daemontest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// patience bounds every wait of a test.
const patience = 30 * time.Second

// Options describes a Stack.
type Options struct {
	Backend daemon.Backend
	Config  daemon.Config
	// Tune, when not nil, may change the daemon before it runs.
	Tune func(*daemon.Daemon)
}

// Stack is an engine, a daemon and a caller's client, all real and in this
// process. Everything ends with the test.
type Stack struct {
	// Client is a caller's connection.
	Client *bus.Client
	// URL is the engine's worker URL.
	URL string
	// StopDaemon ends the daemon as a signal would and returns what Run did. The
	// end of the test calls it too.
	StopDaemon func() error
}

// Config is a configuration that allows both presets.
func Config() daemon.Config {
	config := daemon.DefaultConfig()
	config.ImageAllowlist = []string{"python", "node"}
	return config
}

// Start returns once the caller can call the daemon.
func Start(t testing.TB, o Options) *Stack {
	t.Helper()
	address := startEngine(t)
	s := &Stack{URL: address, Client: startClient(t, address)}
	s.startDaemon(t, o)
	// The last ones by registration and by id, whichever order the client has.
	for _, last := range []string{"sandbox::fs::stat", "sandbox::stop"} {
		s.await(t, last)
	}
	return s
}

func startEngine(t testing.TB) string {
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

func startClient(t testing.TB, address string) *bus.Client {
	t.Helper()
	client := newClient(t, address, "caller")
	stop := inBackground(client.Run)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the caller's connection ended with: %v", err)
		}
	})
	return client
}

func newClient(t testing.TB, address, name string) *bus.Client {
	t.Helper()
	client, err := bus.New(bus.Options{URL: address, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (s *Stack) startDaemon(t testing.TB, o Options) {
	t.Helper()
	d, err := daemon.New(daemon.Options{
		Client: newClient(t, s.URL, daemon.WorkerName), Backend: o.Backend, Config: o.Config,
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.Tune != nil {
		o.Tune(d)
	}
	s.StopDaemon = inBackground(d.Run)
	t.Cleanup(func() {
		if err := s.StopDaemon(); err != nil {
			t.Errorf("the daemon ended with: %v", err)
		}
		if b, ok := o.Backend.(*Backend); ok && b.Live() > 0 {
			t.Errorf("%d machines outlived the daemon", b.Live())
		}
	})
}

// await polls the engine until it knows a function.
func (s *Stack) await(t testing.TB, function string) {
	t.Helper()
	Eventually(t, function+" is on the bus", func(ctx context.Context) bool {
		_, err := s.Client.FunctionInfo(ctx, function, "")
		return err == nil
	})
}

// Eventually polls until the condition holds and fails the test when it never
// does.
func Eventually(t testing.TB, what string, condition func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition(ctx) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waited %s in vain: %s", patience, what)
		}
	}
}

// inBackground runs f until the returned function is called, which ends it and
// returns its error; further calls return nil.
func inBackground(f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- f(ctx)
	}()
	return func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return errors.New("it did not end in time")
		}
	}
}
