package publish

import "time"

// Load is the use of one instance.
type Load struct {
	// InUse is the number of calls and runs in it.
	InUse int
	// Draining says that it takes no new ones.
	Draining bool
	// Complete says that every source which answers for a function of the runtime
	// is in place.
	Complete bool
}

// Loads returns the use of every instance of a runtime, by name.
func (t *Table) Loads(runtime Runtime) map[string]Load {
	t.mu.Lock()
	defer t.mu.Unlock()
	loads := map[string]Load{}
	state, ok := t.runtimes[runtime]
	if !ok {
		return loads
	}
	served := t.served[runtime]
	for name, i := range state.instances {
		loads[name] = Load{InUse: i.programs(), Draining: i.draining, Complete: i.hasAll(served)}
	}
	return loads
}

func (i *instanceState) hasAll(served map[string]int) bool {
	for digest := range served {
		if !i.has(digest) {
			return false
		}
	}
	return true
}

// DrainIdlest takes the instance out of service that has been unused for longest,
// among those of the given runtimes that nobody uses or waits for, if it has been
// unused for that time. Resume brings it back.
func (t *Table) DrainIdlest(among []Runtime, unused time.Duration) (Runtime, Instance, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var owner Runtime
	var idlest *instanceState
	latest := t.clock.Now().Add(-unused)
	for _, runtime := range among {
		state, ok := t.runtimes[runtime]
		if !ok || state.wanted || len(state.waiting) > 0 {
			continue
		}
		for _, i := range state.instances {
			if i.programs() > 0 || i.draining || i.lastUse.After(latest) {
				continue
			}
			if idlest == nil || i.lastUse.Before(idlest.lastUse) {
				owner, idlest = runtime, i
			}
		}
	}
	if idlest == nil {
		return Runtime{}, Instance{}, false
	}
	idlest.draining = true
	return owner, idlest.Instance, true
}
