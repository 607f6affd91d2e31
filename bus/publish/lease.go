package publish

// Lease is one slot on an instance. Release it when the program has ended.
type Lease struct {
	Instance
	table   *Table
	runtime Runtime
	// state and instance are those that the slot was counted in. Others may stand
	// behind the same names by the time of the release.
	state    *runtimeState
	instance *instanceState
	// demand is what the slot was taken for.
	demand demand
	// reserve is true for the slot that is kept for calls from inside handlers.
	reserve  bool
	released bool
	// worker is the name by which the program's own calls are recognised.
	worker string
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
	delete(t.programs, l.worker)
	if l.reserve {
		l.instance.reserveInUse = false
	} else {
		l.instance.inUse--
	}
	l.state.ended(l.demand.functionID)
	l.state.lastUse = t.clock.Now()
	l.instance.lastUse = l.state.lastUse
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

// RunsAs names the worker that the program in this slot becomes on the bus, until
// the release. The agent's hosts add a suffix of their own, since two processes
// of one name would collide. The caller is who called the program.
func (l *Lease) RunsAs(worker string, caller Caller) {
	t := l.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.released || worker == "" {
		return
	}
	l.worker = worker
	t.programs[worker] = program{
		runtime: l.runtime, reserve: l.reserve, limited: l.demand.limits.Concurrency > 0, caller: caller,
	}
}
