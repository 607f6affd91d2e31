// Package publish serves published functions: it routes a call from the bus to
// a slot on a sandbox, and asks the engine to list the functions. Nothing in it
// touches the API server, so that a call costs one exec in a sandbox.
package publish

import (
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Runtime names a SandboxRuntime, or whatever else instances belong to.
type Runtime struct {
	Namespace, Name, UID string
}

// Hooks are told of what a call found out. They are called without locks and
// must return at once.
type Hooks struct {
	// Wake is called when calls begin to wait for a runtime that has no instance, not
	// for each of them.
	Wake func(Runtime)
	// Lost is called when a call found that an instance is gone.
	Lost func(Runtime, Instance)
	// Added is called when a runtime has a new instance, in which nothing is
	// planted yet, or one that turned out to lack a source.
	Added func(Runtime)
}

// Table knows the instances of all runtimes, which sources are planted in them,
// and which function is served by which. It is safe for concurrent use.
type Table struct {
	clock clock.WithTicker
	hooks Hooks

	mu       sync.Mutex
	runtimes map[Runtime]*runtimeState
	bindings map[string]*Binding
	// served counts the functions that each source of a runtime answers for. It is
	// what bindings say, found without a search: one of thousands of functions that go
	// must not look at all the others.
	served map[Runtime]map[string]int
	// programs are those in slots, by the names of their workers on the bus.
	programs map[string]program
	// gone are dropped runtimes, which never come back, and when they went. Who
	// still names one is refused instead of waiting for it.
	gone map[Runtime]time.Time
}

// remembrance is how long a dropped runtime is remembered: longer than any call
// or run holds on to its name.
const remembrance = 15 * time.Minute

type runtimeState struct {
	// concurrency is the most programs per instance, 0 for the back end's cap.
	concurrency int
	instances   map[string]*instanceState
	waiting     []*waiter
	// turns say when a function that waits last got a slot.
	turns    map[string]int
	turn     int
	lastUse  time.Time
	inFlight int
	// running counts the calls of each function that has any.
	running map[string]int
	wanted  bool
	// wokenAt is when a call that waits last woke the runtime.
	wokenAt time.Time
	// closed runtimes take no more calls.
	closed bool
}

// NewTable returns an empty table.
func NewTable(clk clock.WithTicker, hooks Hooks) *Table {
	return &Table{
		clock:    clk,
		hooks:    hooks,
		runtimes: map[Runtime]*runtimeState{},
		bindings: map[string]*Binding{},
		served:   map[Runtime]map[string]int{},
		programs: map[string]program{},
		gone:     map[Runtime]time.Time{},
	}
}

// SetHooks replaces the hooks; call it before the table is used.
func (t *Table) SetHooks(hooks Hooks) { t.hooks = hooks }

// SetConcurrency bounds the programs per instance of a runtime; 0 leaves the
// bound to the back end.
func (t *Table) SetConcurrency(runtime Runtime, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.runtime(runtime)
	state.concurrency = limit
	t.dispatch(runtime, state)
}

// Drop forgets a runtime for good. Calls that wait for it fail.
func (t *Table) Drop(runtime Runtime) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	maps.DeleteFunc(t.gone, func(_ Runtime, since time.Time) bool { return now.Sub(since) > remembrance })
	t.gone[runtime] = now
	state, ok := t.runtimes[runtime]
	if !ok {
		return
	}
	state.refuse(ErrRuntimeGone)
	delete(t.runtimes, runtime)
}

// Close takes no more calls for a runtime that is on its way out, and fails those
// that wait. Its instances stay for the programs in them until Drop.
func (t *Table) Close(runtime Runtime) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.runtime(runtime)
	state.closed = true
	state.refuse(ErrRuntimeGone)
}

// Refuse fails the calls that wait for a runtime: it will have no instance until
// its owner decides otherwise. ErrRuntimeGone is the cause that says no more.
func (t *Table) Refuse(runtime Runtime, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state, ok := t.runtimes[runtime]; ok {
		state.refuse(cause)
	}
}

func (s *runtimeState) refuse(cause error) {
	for _, w := range s.waiting {
		w.fail(cause)
	}
	s.waiting = nil
	s.wanted = false
}

// Activity is the use of a runtime.
type Activity struct {
	// LastUse is when the last call or run began or ended, or when the table
	// first heard of the runtime.
	LastUse time.Time
	// InFlight is the number of calls and runs now.
	InFlight int
	// Wanted is true while a call waits, or asked, for an instance.
	Wanted bool
}

// Activity returns the use of a runtime.
func (t *Table) Activity(runtime Runtime) Activity {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.runtime(runtime)
	return Activity{
		LastUse:  state.lastUse,
		InFlight: state.inFlight,
		Wanted:   state.wanted || len(state.waiting) > 0,
	}
}

// Want counts as a use of the runtime, which boots an instance if it has none.
func (t *Table) Want(runtime Runtime) {
	t.mu.Lock()
	state := t.runtime(runtime)
	state.wanted = true
	state.lastUse = t.clock.Now()
	t.mu.Unlock()
	t.wake(runtime)
}

// Use counts as a use of the runtime now, but asks for no instance.
func (t *Table) Use(runtime Runtime) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runtime(runtime).lastUse = t.clock.Now()
}

func (t *Table) wake(runtime Runtime) {
	if t.hooks.Wake != nil {
		t.hooks.Wake(runtime)
	}
}

// runtime returns the state of a runtime and makes it if need be. That of a
// dropped one is not kept.
func (t *Table) runtime(runtime Runtime) *runtimeState {
	state, ok := t.runtimes[runtime]
	if ok {
		return state
	}
	state = &runtimeState{
		instances: map[string]*instanceState{}, turns: map[string]int{}, running: map[string]int{}, lastUse: t.clock.Now(),
	}
	if _, gone := t.gone[runtime]; !gone {
		t.runtimes[runtime] = state
	}
	return state
}
