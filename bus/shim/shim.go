package shim

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// DefaultWorkerName is the name of the original worker, and with it the prefix
// of its function ids and error codes.
const DefaultWorkerName = "sandbox-code-runner"

// maxProgramTimeout is the bound of timeoutMilliseconds in the API.
const maxProgramTimeout = 290 * time.Second

// Bus is what the shim needs of a bus client.
type Bus interface {
	RegisterFunction(bus.Function) error
	RegisterTrigger(bus.Trigger) error
	RegisterTriggerType(bus.TriggerType) error
	FunctionInfo(ctx context.Context, id, namespace string) (bus.FunctionInfo, error)
	Call(ctx context.Context, call bus.Call) (json.RawMessage, error)
	Void(ctx context.Context, call bus.Call) error
}

// Fleet is the reader of the daemon's list of sandboxes.
type Fleet interface {
	// Snapshot is the last reading.
	Snapshot() fleet.Snapshot
	// Interest asks for readings at the full rate until done is called.
	Interest() (done func())
}

// Options configures a Shim. Bus, Client, Reader, Fleet, Namespace, Results and
// all indexes are required.
type Options struct {
	Bus Bus
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Reader reads from the API server itself, so that a decision holds right
	// after a write or a restart.
	Reader client.Reader
	// FunctionIDIndex is the field under which Client finds SandboxFunctions by
	// their function id.
	FunctionIDIndex string
	// FunctionPrefixIndex is the field under which Client finds SandboxFunctions of
	// all namespaces by the first segment of their function id, without the colons.
	FunctionPrefixIndex string
	// FunctionRuntimeIndex is the field under which Client finds SandboxFunctions of
	// a namespace by the name of their runtime.
	FunctionRuntimeIndex string
	Fleet                Fleet
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
	// InjectGuidance binds the hook that adds guidance to the prompts of agents
	// (§4.5).
	InjectGuidance bool
	// OpenCapabilities shows runtime and sandbox ids in lists and events to
	// everybody, as the original does; otherwise to nobody but the caller who made
	// the runtime.
	OpenCapabilities bool
	// AllowForceTeardown lets teardown with force remove what kubectl made.
	AllowForceTeardown bool
	// Programs tells calls that come from inside a kept runtime; nil takes all for
	// calls from outside.
	Programs Programs
	// Results hands out what runs answered.
	Results Results
	// Clock is for deadlines of calls; nil means real time.
	Clock clock.Clock
	// Logger receives what an operator of this process should see; nil is silent.
	Logger *slog.Logger
}

// Shim answers the functions of a sandbox code runner and emits its events. Its
// methods may be called concurrently.
type Shim struct {
	Options
	events *hub
	// lifetimes are the objects that subscribers were told of.
	lifetimes lifetimes
	// ids are the runtime ids that this process has seen.
	ids heldIDs
	// callers has what goes on for each worker, to end it when the worker leaves.
	callers callers
	// key makes digests of ids that nobody can compute from a guess.
	key []byte
	// registering serializes the check of a registration against the creation of
	// its object, per id prefix and language; replacing the changes of one function.
	registering, replacing keyedLocks
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
	s := &Shim{Options: o, deleteAttempts: deleteAttempts, key: make([]byte, sha256.Size)}
	// Read never fails.
	_, _ = rand.Read(s.key)
	s.events = newHub(o.Bus, o.Clock, o.Logger)
	return s, nil
}

// Register adds the event type, the functions and their triggers to the bus
// client, which publishes them now and on every new connection. The ids are
// reserved already, so none can be taken in between.
func (s *Shim) Register() error {
	if err := s.Bus.RegisterTriggerType(s.eventType()); err != nil {
		return err
	}
	for _, f := range slices.Concat(s.functions(), s.internalFunctions()) {
		if err := s.Bus.RegisterFunction(f); err != nil {
			return fmt.Errorf("registering %s: %w", f.ID, err)
		}
	}
	triggers, err := s.triggers()
	if err != nil {
		return err
	}
	for _, t := range triggers {
		if err := s.Bus.RegisterTrigger(t); err != nil {
			return fmt.Errorf("binding %s: %w", t.ID, err)
		}
	}
	return nil
}

// Close refuses all further calls: the controllers that they need are about to
// end. Those under way go on.
func (s *Shim) Close() { s.closed.Store(true) }

// Drain ends the delivery of events and waits until no deletion runs in the
// background any more, or ctx ends. Call it once the bus client has stopped.
func (s *Shim) Drain(ctx context.Context) error {
	return errors.Join(await(ctx, s.events.close), await(ctx, s.background.Wait))
}

// await gives up a wait when ctx ends.
func await(ctx context.Context, end func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		end()
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
	case o.Bus == nil, o.Client == nil, o.Reader == nil, o.Results == nil, o.Fleet == nil:
		return errors.New("Bus, Client, Reader, Fleet and Results are required")
	case o.FunctionIDIndex == "" || o.FunctionPrefixIndex == "" || o.FunctionRuntimeIndex == "":
		return errors.New("FunctionIDIndex, FunctionPrefixIndex and FunctionRuntimeIndex are required")
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
