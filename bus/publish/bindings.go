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
	// Timeout bounds a call from its arrival to its answer.
	Timeout time.Duration
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
	t.bindings[b.FunctionID] = &b
	if former == nil || former.Runtime != b.Runtime || former.SourceDigest != b.SourceDigest {
		t.recall(b)
	}
}

// recall lets the calls of a function that wait for another source or runtime
// look for the present one. The caller holds the lock.
func (t *Table) recall(b Binding) {
	for runtime, state := range t.runtimes {
		state.dismiss(errRebound, func(w *waiter) bool {
			return w.functionID == b.FunctionID && (runtime != b.Runtime || w.digest != b.SourceDigest)
		})
	}
}

// Unbind forgets a function. Calls that wait go on to do so: it may be back
// before their deadline.
func (t *Table) Unbind(functionID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.bindings, functionID)
}

// End forgets a function that will not be back. Calls that wait for it fail.
func (t *Table) End(functionID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.bindings, functionID)
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
	for _, b := range t.bindings {
		if b.Runtime == runtime && b.SourceDigest == digest {
			return true
		}
	}
	return false
}
