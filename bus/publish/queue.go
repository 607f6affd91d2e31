package publish

import (
	"context"
	"errors"
	"slices"
)

// maxWaiting bounds the calls that wait for one runtime.
const maxWaiting = 256

type waiter struct {
	demand
	// wakes is true if the runtime has to be woken for the call.
	wakes bool
	// ready has room for one answer, so that dispatch never blocks.
	ready chan waitResult
}

type waitResult struct {
	lease *Lease
	err   error
}

// wakeFor wakes the runtime for a call that waits, if it has to be.
func (t *Table) wakeFor(runtime Runtime, w *waiter) {
	if w.wakes {
		t.wake(runtime)
	}
}

func (w *waiter) fail(err error) { w.ready <- waitResult{err: err} }

// Acquire takes a slot on the least loaded instance of a runtime, in order of
// arrival. With a digest only instances in which that source is planted count.
// It waits until the context ends, and wakes the runtime if that has no instance. A full queue answers ErrQueueFull at once.
func (t *Table) Acquire(ctx context.Context, runtime Runtime, digest string) (*Lease, error) {
	t.mu.Lock()
	state, lease, w, err := t.join(runtime, demand{digest: digest}, standing{})
	t.mu.Unlock()
	if w == nil {
		return lease, err
	}
	t.wakeFor(runtime, w)
	return t.await(ctx, state, w)
}

// AcquireFor is Acquire for a call of a function, and returns the binding that
// the slot suits. A call that waits follows its function to another source or
// runtime, since nobody plants the former one any more. Who made the call is
// asked only if no slot is free; nil stands for nobody.
func (t *Table) AcquireFor(ctx context.Context, functionID string, caller Caller) (*Lease, Binding, error) {
	for {
		if lease, b := t.takeFree(functionID); lease != nil {
			return lease, b, nil
		}
		from := t.standing(ctx, caller)
		t.mu.Lock()
		b, ok := t.bindings[functionID]
		if !ok {
			t.mu.Unlock()
			return nil, Binding{}, ErrRuntimeGone
		}
		state, lease, w, err := t.join(b.Runtime, b.demand(from.nested), from)
		t.mu.Unlock()
		if w != nil {
			t.wakeFor(b.Runtime, w)
			lease, err = t.await(ctx, state, w)
		}
		if !errors.Is(err, errRebound) {
			return lease, *b, err
		}
	}
}

// takeFree takes a slot that is free now, or returns nil.
func (t *Table) takeFree(functionID string) (*Lease, Binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, ok := t.bindings[functionID]
	if !ok {
		return nil, Binding{}
	}
	if _, gone := t.gone[b.Runtime]; gone {
		return nil, Binding{}
	}
	state := t.runtime(b.Runtime)
	if state.closed {
		return nil, Binding{}
	}
	state.lastUse = t.clock.Now()
	return t.take(b.Runtime, state, b.demand(false)), *b
}

func (b *Binding) demand(nested bool) demand {
	return demand{digest: b.SourceDigest, functionID: b.FunctionID, limits: b.Limits, nested: nested}
}

// join takes a slot, or a place in the queue: a waiter. The caller holds the
// lock.
func (t *Table) join(runtime Runtime, d demand, from standing) (*runtimeState, *Lease, *waiter, error) {
	if _, gone := t.gone[runtime]; gone {
		return nil, nil, nil, ErrRuntimeGone
	}
	state := t.runtime(runtime)
	if state.closed {
		return nil, nil, nil, ErrRuntimeGone
	}
	state.lastUse = t.clock.Now()
	// A slot that is free now suits none of those who wait: it was offered to
	// them when it became free.
	if lease := t.take(runtime, state, d); lease != nil {
		return state, lease, nil, nil
	}
	switch {
	case !from.mayWait(runtime, state), from.limited && !state.admits(d):
		return state, nil, nil, ErrNestedFull
	case state.queueIsFull(d):
		return state, nil, nil, ErrFunctionQueueFull
	case len(state.waiting) >= maxWaiting && !state.makeRoom(d.functionID):
		return state, nil, nil, ErrQueueFull
	}
	w := &waiter{demand: d, wakes: state.wakes(state.lastUse), ready: make(chan waitResult, 1)}
	state.waiting = append(state.waiting, w)
	return state, nil, w, nil
}

func (t *Table) await(ctx context.Context, state *runtimeState, w *waiter) (*Lease, error) {
	select {
	case result := <-w.ready:
		return result.lease, result.err
	case <-ctx.Done():
	}
	t.mu.Lock()
	state.waiting = slices.DeleteFunc(state.waiting, func(o *waiter) bool { return o == w })
	t.mu.Unlock()
	select {
	case result := <-w.ready:
		// The slot was granted in the same moment; hand it back.
		if result.lease != nil {
			result.lease.Release()
		}
	default:
	}
	return nil, ctx.Err()
}
