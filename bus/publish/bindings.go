package publish

import (
	"errors"
	"slices"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// Binding says which source in which runtime answers for a function.
type Binding struct {
	FunctionID   string
	Runtime      Runtime
	Language     wire.Language
	SourceDigest string
	Handler      string
	// Isolation is what calls share; empty stands for wire.PerCall.
	Isolation wire.Isolation
	// Timeout bounds a call from its arrival to its answer.
	Timeout time.Duration
	// Limits bound the function's calls.
	Limits Limits
	// Request and Response check payloads and results; nil checks nothing.
	Request, Response *Schema
}

// errRebound tells a waiting call that its function is bound otherwise now.
var errRebound = errors.New("the function is bound to another source or runtime")

// Bind makes a binding the one that new and waiting calls use. Calls in flight
// keep theirs.
func (t *Table) Bind(b Binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	former := t.bindings[b.FunctionID]
	if former != nil && *former == b {
		return
	}
	t.unbind(b.FunctionID)
	t.bindings[b.FunctionID] = &b
	t.serve(b.Runtime, b.SourceDigest)
	if former == nil || former.Runtime != b.Runtime || former.SourceDigest != b.SourceDigest || former.Limits != b.Limits {
		t.recall(b)
	}
}

// recall lets the calls of a function that wait for another source or runtime, or
// under other limits, look for the present ones. The caller holds the lock.
func (t *Table) recall(b Binding) {
	for runtime, state := range t.runtimes {
		state.dismiss(errRebound, func(w *waiter) bool {
			return w.functionID == b.FunctionID && (runtime != b.Runtime || w.digest != b.SourceDigest || w.limits != b.Limits)
		})
	}
}

// Unbind forgets a function. Calls that wait go on to do so: it may be back
// before their deadline.
func (t *Table) Unbind(functionID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unbind(functionID)
}

// unbind is Unbind for who holds the lock.
func (t *Table) unbind(functionID string) {
	b, ok := t.bindings[functionID]
	if !ok {
		return
	}
	delete(t.bindings, functionID)
	served := t.served[b.Runtime]
	if served[b.SourceDigest]--; served[b.SourceDigest] == 0 {
		delete(served, b.SourceDigest)
	}
	if len(served) == 0 {
		delete(t.served, b.Runtime)
	}
}

// serve notes that a source of a runtime answers for one function more. The caller
// holds the lock.
func (t *Table) serve(runtime Runtime, digest string) {
	served, ok := t.served[runtime]
	if !ok {
		served = map[string]int{}
		t.served[runtime] = served
	}
	served[digest]++
}

// End forgets a function that will not be back. Calls that wait for it fail.
func (t *Table) End(functionID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unbind(functionID)
	for _, state := range t.runtimes {
		state.dismiss(ErrRuntimeGone, func(w *waiter) bool { return w.functionID == functionID })
	}
}

// dismiss fails waiters. The caller holds the lock.
func (s *runtimeState) dismiss(cause error, whom func(*waiter) bool) {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		if !whom(w) {
			return false
		}
		w.fail(cause)
		return true
	})
}

// Binding returns the binding of a function.
func (t *Table) Binding(functionID string) (Binding, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, ok := t.bindings[functionID]
	if !ok {
		return Binding{}, false
	}
	return *b, true
}

// IsServed says whether any function of a runtime is answered by a source.
func (t *Table) IsServed(runtime Runtime, digest string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.served[runtime][digest] > 0
}
