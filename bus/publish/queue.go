package publish

import (
	"context"
	"errors"
	"slices"
)

// maxWaiting bounds the calls that wait for one runtime.
const maxWaiting = 256

// Lease is one slot on an instance. Release it when the program has ended.
type Lease struct {
	Instance
	table   *Table
	runtime Runtime
	// state and instance are those that the slot was counted in. Others may stand
	// behind the same names by the time of the release.
	state    *runtimeState
	instance *instanceState
	released bool
}

type waiter struct {
	digest string
	// functionID is empty for a run.
	functionID string
	// ready has room for one answer, so that dispatch never blocks.
	ready chan waitResult
}

type waitResult struct {
	lease *Lease
	err   error
}

func (w *waiter) fail(err error) { w.ready <- waitResult{err: err} }

// Acquire takes a slot on the least loaded instance of a runtime, in order of
// arrival. With a digest only instances in which that source is planted count.
// It waits until the context ends, and wakes the runtime meanwhile, which may
// have no instance. A full queue answers ErrQueueFull at once.
func (t *Table) Acquire(ctx context.Context, runtime Runtime, digest string) (*Lease, error) {
	t.mu.Lock()
	state, lease, w, err := t.join(runtime, digest, "")
	t.mu.Unlock()
	if w == nil {
		return lease, err
	}
	t.wake(runtime)
	return t.await(ctx, state, w)
}

// AcquireFor is Acquire for a call of a function, and returns the binding that
// the slot suits. A call that waits follows its function to another source or
// runtime, since nobody plants the former one any more.
func (t *Table) AcquireFor(ctx context.Context, functionID string) (*Lease, Binding, error) {
	for {
		t.mu.Lock()
		b, ok := t.bindings[functionID]
		if !ok {
			t.mu.Unlock()
			return nil, Binding{}, ErrRuntimeGone
		}
		state, lease, w, err := t.join(b.Runtime, b.SourceDigest, functionID)
		t.mu.Unlock()
		if w != nil {
			t.wake(b.Runtime)
			lease, err = t.await(ctx, state, w)
		}
		if !errors.Is(err, errRebound) {
			return lease, *b, err
		}
	}
}

// join takes a slot, or a place in the queue: a waiter. The caller holds the
// lock.
func (t *Table) join(runtime Runtime, digest, functionID string) (*runtimeState, *Lease, *waiter, error) {
	if _, gone := t.gone[runtime]; gone {
		return nil, nil, nil, ErrRuntimeGone
	}
	state := t.runtime(runtime)
	state.lastUse = t.clock.Now()
	// A slot that is free now suits none of those who wait: it was offered to
	// them when it became free.
	if lease := t.take(runtime, state, digest); lease != nil {
		return state, lease, nil, nil
	}
	if len(state.waiting) >= maxWaiting {
		return state, nil, nil, ErrQueueFull
	}
	w := &waiter{digest: digest, functionID: functionID, ready: make(chan waitResult, 1)}
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

// take counts a slot as taken, or returns nil if none suits. The caller holds
// the lock.
func (t *Table) take(runtime Runtime, state *runtimeState, digest string) *Lease {
	instance := state.pick(digest)
	if instance == nil {
		return nil
	}
	instance.inUse++
	state.inFlight++
	return &Lease{Instance: instance.Instance, table: t, runtime: runtime, state: state, instance: instance}
}

// Release gives the slot back. A second call does nothing.
func (l *Lease) Release() {
	t := l.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.released {
		return
	}
	l.released = true
	l.instance.inUse--
	l.state.inFlight--
	l.state.lastUse = t.clock.Now()
	t.dispatch(l.runtime, l.state)
}

// Lost says that the sandbox behind the slot is gone or dead. It leaves the
// table at once, so that no other call tries it.
func (l *Lease) Lost() {
	t := l.table
	t.mu.Lock()
	if l.state.instances[l.Name] == l.instance {
		delete(l.state.instances, l.Name)
	}
	t.mu.Unlock()
	if t.hooks.Lost != nil {
		t.hooks.Lost(l.runtime, l.Instance)
	}
}

// NotPlanted says that the source is not in the instance after all, so that
// those who plant look at the runtime again.
func (l *Lease) NotPlanted(digest string) {
	l.table.MarkUnplanted(l.runtime, l.Instance, digest)
	if l.table.hooks.Added != nil {
		l.table.hooks.Added(l.runtime)
	}
}

// dispatch hands free slots to waiters in order; one that no instance suits does
// not hold up those behind it. It must follow every change that may free a slot.
// The caller holds the lock.
func (t *Table) dispatch(runtime Runtime, state *runtimeState) {
	state.waiting = slices.DeleteFunc(state.waiting, func(w *waiter) bool {
		lease := t.take(runtime, state, w.digest)
		if lease == nil {
			return false
		}
		w.ready <- waitResult{lease: lease}
		return true
	})
}

// pick returns the least loaded instance with a free slot, or nil.
func (s *runtimeState) pick(digest string) *instanceState {
	var best *instanceState
	for _, i := range s.instances {
		if i.draining || i.inUse >= i.capacity(s.concurrency) || !i.has(digest) {
			continue
		}
		if best == nil || i.inUse < best.inUse || (i.inUse == best.inUse && i.Name < best.Name) {
			best = i
		}
	}
	return best
}

func (i *instanceState) has(digest string) bool {
	if digest == "" {
		return true
	}
	_, ok := i.planted[digest]
	return ok
}
