package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// DefaultWorkerName is the name of the original worker, and with it the prefix
// of its function ids and error codes.
const DefaultWorkerName = "sandbox-code-runner"

// maxProgramTimeout is the bound of timeoutMilliseconds in the API.
const maxProgramTimeout = 290 * time.Second

// Bus is what the shim needs of a bus client.
type Bus interface {
	RegisterFunction(bus.Function) error
	FunctionInfo(ctx context.Context, id, namespace string) (bus.FunctionInfo, error)
}

// Options configures a Shim. Bus, Client, Reader, Namespace and Results are
// required.
type Options struct {
	Bus Bus
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Reader reads from the API server itself, so that a decision holds right
	// after a write or a restart.
	Reader client.Reader
	// Namespace is where the objects of bus callers live.
	Namespace string
	// WorkerName is the prefix of the function ids and error codes; empty means
	// DefaultWorkerName.
	WorkerName string
	// DefaultTimeout is for runs that name none; it is capped by MaxTimeout.
	// Zero fields mean 5 s and 30 s (contracts/code-runner.md §8).
	DefaultTimeout, MaxTimeout time.Duration
	// IdleTimeout deletes a kept runtime that long after its last run. Zero means
	// 900 s, less than 30 s means 30 s (§7.3).
	IdleTimeout time.Duration
	// Results hands out what runs answered.
	Results Results
	// Clock is for deadlines of calls; nil means real time.
	Clock clock.Clock
	// Logger receives what an operator of this process should see; nil is silent.
	Logger *slog.Logger
}

// Shim answers run, register_function and teardown. Its methods may be called
// concurrently.
type Shim struct {
	Options
	// registering serializes the check of a registration against the creation of
	// its object, per id prefix and language.
	registering keyedLocks
	// background counts deletions that no caller waits for.
	background sync.WaitGroup
	// closed is true once no further call is taken.
	closed         atomic.Bool
	deleteAttempts wait.Backoff
}

// New checks the options; it does not touch the bus.
func New(o Options) (*Shim, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("shim options: %w", err)
	}
	return &Shim{Options: o, deleteAttempts: deleteAttempts}, nil
}

// Register adds the functions to the bus client, which publishes them now and
// on every new connection.
func (s *Shim) Register() error {
	for _, f := range s.functions() {
		if err := s.Bus.RegisterFunction(f); err != nil {
			return fmt.Errorf("registering %s: %w", f.ID, err)
		}
	}
	return nil
}

// Close refuses all further calls: the controllers that they need are about to
// end. Those under way go on.
func (s *Shim) Close() { s.closed.Store(true) }

// Drain waits until no deletion runs in the background any more, or ctx ends.
// Call it once the bus client has stopped.
func (s *Shim) Drain(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.background.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o Options) withDefaults() Options {
	orDefault(&o.WorkerName, DefaultWorkerName)
	orDefault(&o.DefaultTimeout, 5*time.Second)
	orDefault(&o.MaxTimeout, 30*time.Second)
	orDefault(&o.IdleTimeout, 900*time.Second)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Bus == nil, o.Client == nil, o.Reader == nil, o.Results == nil:
		return errors.New("Bus, Client, Reader and Results are required")
	case o.Namespace == "":
		return errors.New("no Namespace")
	case o.DefaultTimeout < time.Millisecond, o.MaxTimeout < time.Millisecond:
		return errors.New("DefaultTimeout and MaxTimeout must be at least 1 ms")
	case o.MaxTimeout > maxProgramTimeout:
		return fmt.Errorf("MaxTimeout is above %s", maxProgramTimeout)
	case o.IdleTimeout < 0 || o.IdleTimeout > 7*24*time.Hour:
		return errors.New("IdleTimeout must be 0 to 7 days")
	}
	return checkPrefix(o.WorkerName)
}

func orDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}
