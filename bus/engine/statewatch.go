package engine

import "sync"

// stateWatch is a bound state trigger; an empty scope or key stands for all.
type stateWatch struct {
	conditional
	Scope string `json:"scope"`
	Key   string `json:"key"`

	binding *binding
}

// stateWatchers is the provider of the trigger type state
// (contracts/iii-bus.md §6.3).
type stateWatchers struct {
	mu    sync.RWMutex
	bound map[string]stateWatch
}

func newStateWatchers() *stateWatchers {
	return &stateWatchers{bound: map[string]stateWatch{}}
}

func (s *stateWatchers) bind(b *binding) error {
	watch := stateWatch{binding: b}
	if err := b.decodeConfig(&watch); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound[b.id] = watch
	return nil
}

func (s *stateWatchers) unbind(b *binding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bound, b.id)
}

func (s *stateWatchers) changed(e *Engine, change stateChange) {
	watching := s.watching(change)
	if len(watching) == 0 {
		return
	}
	payload := mustJSON(change)
	for _, w := range watching {
		e.fire(w.binding, w.ConditionFunctionID, payload)
	}
}

func (s *stateWatchers) watching(change stateChange) []stateWatch {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []stateWatch
	for _, w := range s.bound {
		if (w.Scope == "" || w.Scope == change.Scope) && (w.Key == "" || w.Key == change.Key) {
			out = append(out, w)
		}
	}
	return out
}
