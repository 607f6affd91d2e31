package publish

import (
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
}

// Bind makes a binding the one that new calls use. Calls in flight keep theirs.
func (t *Table) Bind(b Binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bindings[b.FunctionID] = &b
}

// Unbind forgets a function.
func (t *Table) Unbind(functionID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.bindings, functionID)
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
