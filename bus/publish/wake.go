package publish

import "time"

// wakeAgain is how long a runtime counts as woken by the calls that wait for it. It
// is a net: whatever else changes what they wait for wakes the runtime by itself.
const wakeAgain = time.Second

// wakes says whether a call that begins to wait has to wake its runtime, and notes
// that it does. One that waits for its turn has nothing to tell: under load that is
// every call. Nor has one that finds others waiting for a sandbox, since whoever
// looks at the runtime for those sees that it is wanted. The caller holds the lock.
func (s *runtimeState) wakes(now time.Time) bool {
	if s.takesCalls() || len(s.waiting) > 0 && now.Sub(s.wokenAt) < wakeAgain {
		return false
	}
	s.wokenAt = now
	return true
}

// Awaited returns the functions of a runtime for which calls wait, nil for none.
func (t *Table) Awaited(runtime Runtime) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, ok := t.runtimes[runtime]
	if !ok {
		return nil
	}
	var awaited map[string]bool
	for _, w := range state.waiting {
		if w.functionID == "" {
			continue // a run
		}
		if awaited == nil {
			awaited = map[string]bool{}
		}
		awaited[w.functionID] = true
	}
	return awaited
}
