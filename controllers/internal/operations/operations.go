// Package operations runs what takes long (boots, installs, runs) outside of
// Reconcile, at most one at a time per key, and wakes the reconciler when it is
// done.
package operations

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"
)

// ErrStopped is the cause of an operation's context when the table was closed.
var ErrStopped = errors.New("the operator is shutting down")

// Table holds the operations of one controller. R is what they return.
type Table[R any] struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	entries map[string]*entry[R]
}

type entry[R any] struct {
	cancel context.CancelCauseFunc
	done   bool
	result R
	err    error
}

// Status is what the table knows of one key.
type Status[R any] struct {
	// Done is false while the operation runs.
	Done   bool
	Result R
	Err    error
}

// PanicError is the error of an operation that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error tells the value only if the Go runtime made it: another could hold
// anything, a capability too.
func (e *PanicError) Error() string {
	if fault, ok := e.Value.(runtime.Error); ok {
		return "operation panicked: " + fault.Error()
	}
	return fmt.Sprintf("operation panicked with a %T", e.Value)
}

// NewTable returns an empty table.
func NewTable[R any]() *Table[R] {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Table[R]{ctx: ctx, cancel: cancel, entries: map[string]*entry[R]{}}
}

// Start runs an operation under a key and calls done when it has ended. It
// reports false, and runs nothing, if the key has an operation already,
// finished or not, or if the table is closed.
func (t *Table[R]) Start(key string, run func(context.Context) (R, error), done func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.entries[key]; taken || t.closed {
		return false
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	e := &entry[R]{cancel: cancel}
	t.entries[key] = e
	t.group.Add(1)
	go t.execute(ctx, e, run, done)
	return true
}

func (t *Table[R]) execute(ctx context.Context, e *entry[R], run func(context.Context) (R, error), done func()) {
	defer t.group.Done()
	result, err := protect(ctx, run)
	e.cancel(nil)
	t.mu.Lock()
	e.done, e.result, e.err = true, result, err
	t.mu.Unlock()
	done()
}

func protect[R any](ctx context.Context, run func(context.Context) (R, error)) (result R, err error) {
	defer func() {
		if v := recover(); v != nil {
			stack := debug.Stack()
			err = &PanicError{Value: v, Stack: stack}
			ctrl.Log.WithName("operations").Error(err, "An operation panicked", "stack", string(stack))
		}
	}()
	return run(ctx)
}

// Get returns the state of a key's operation and whether there is one.
func (t *Table[R]) Get(key string) (Status[R], bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[key]
	if !ok {
		return Status[R]{}, false
	}
	return Status[R]{Done: e.done, Result: e.result, Err: e.err}, true
}

// Take returns a finished operation and forgets it. A running one stays.
func (t *Table[R]) Take(key string) (Status[R], bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[key]
	if !ok || !e.done {
		return Status[R]{}, false
	}
	delete(t.entries, key)
	return Status[R]{Done: true, Result: e.result, Err: e.err}, true
}

// Running says whether a key has an operation that has not ended.
func (t *Table[R]) Running(key string) bool {
	status, ok := t.Get(key)
	return ok && !status.Done
}

// Cancel ends the context of a running operation with a cause. The operation
// stays in the table until it returns and is taken.
func (t *Table[R]) Cancel(key string, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.entries[key]; ok && !e.done {
		e.cancel(cause)
	}
}

// Discard cancels an operation with a cause and forgets it: what it brings is
// lost. Close still waits for it.
func (t *Table[R]) Discard(key string, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.entries[key]; ok {
		e.cancel(cause)
		delete(t.entries, key)
	}
}

// Close cancels all operations, waits for them until the context ends, and
// takes no more.
func (t *Table[R]) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel(ErrStopped)
	finished := make(chan struct{})
	go func() { t.group.Wait(); close(finished) }()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("operations still running: %w", ctx.Err())
	}
}
