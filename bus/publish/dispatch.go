package publish

// take counts a slot as taken, or returns nil if none suits or the function has as
// many as it may. A nested call may have a reserve. The caller holds the lock.
func (t *Table) take(runtime Runtime, state *runtimeState, d demand) *Lease {
	if !state.admits(d) {
		return nil
	}
	lease := &Lease{table: t, runtime: runtime, state: state, demand: d, instance: state.pick(d.digest)}
	switch {
	case lease.instance != nil:
		lease.instance.inUse++
	case d.nested:
		if lease.instance = state.pickReserve(d.digest); lease.instance == nil {
			return nil
		}
		lease.instance.reserveInUse, lease.reserve = true, true
	default:
		return nil
	}
	lease.Instance = lease.instance.Instance
	lease.instance.lastUse = t.clock.Now()
	state.began(d.functionID)
	return lease
}

// dispatch hands free slots to waiters; one that no instance suits does not hold
// up the others. It must follow every change that may free a slot. The caller
// holds the lock.
func (t *Table) dispatch(runtime Runtime, state *runtimeState) {
	for {
		i := state.next()
		if i < 0 {
			break
		}
		w := state.waiting[i]
		state.waiting = append(state.waiting[:i], state.waiting[i+1:]...)
		state.turn++
		state.turns[w.functionID] = state.turn
		w.ready <- waitResult{lease: t.take(runtime, state, w.demand)}
	}
	if len(state.waiting) == 0 {
		clear(state.turns)
	}
}

// next is the place in the queue of the waiter that a free slot goes to, -1 for
// none: calls from inside handlers first, since others wait for those, then the
// function whose last turn is longest ago. Those of one function go in order of
// arrival.
func (s *runtimeState) next() int {
	best := -1
	for i, w := range s.waiting {
		if best >= 0 && !s.before(w, s.waiting[best]) {
			continue
		}
		if !s.admits(w.demand) {
			continue
		}
		if s.pick(w.digest) != nil || w.nested && s.pickReserve(w.digest) != nil {
			best = i
		}
	}
	return best
}

// before says that w goes before another one, which came earlier.
func (s *runtimeState) before(w, other *waiter) bool {
	if w.nested != other.nested {
		return w.nested
	}
	return s.turns[w.functionID] < s.turns[other.functionID]
}

// makeRoom lets a function with few calls in a full queue displace the newest
// call of the one that has most, so that no function can keep others out. It
// reports false if that would not be fair either.
func (s *runtimeState) makeRoom(functionID string) bool {
	counts := map[string]int{}
	most := functionID
	for _, w := range s.waiting {
		if counts[w.functionID]++; counts[w.functionID] > counts[most] {
			most = w.functionID
		}
	}
	if counts[most] <= counts[functionID]+1 {
		return false
	}
	for i := len(s.waiting) - 1; i >= 0; i-- {
		if w := s.waiting[i]; w.functionID == most {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			w.fail(ErrQueueFull)
			return true
		}
	}
	return false
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
