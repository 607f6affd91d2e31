package guestaccess

import "sync"

// aspect is something that a listener may fail to ask the operator about.
type aspect int

const (
	functionAsked aspect = iota
	triggerAsked
	aspects
)

// inspection is a probe under way: the engine's questions about it prove that the
// listener asks.
type inspection struct {
	guest Guest
	asked [aspects]chan struct{}
	once  [aspects]sync.Once
}

// inspect admits a probe until end is called.
func (s *Service) inspect(g Guest) (found *inspection, end func()) {
	found = &inspection{guest: g}
	for i := range found.asked {
		found.asked[i] = make(chan struct{})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes[g.Instance] = found
	return found, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.probes, g.Instance)
	}
}

// inspection is the probe that a credential was issued for, nil if there is none.
func (s *Service) inspection(g Guest) *inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.probes[g.Instance]; found != nil && found.guest == g {
		return found
	}
	return nil
}

// inspected notes that the engine asked about a session.
func (s *Service) inspected(g Guest, what aspect) {
	if g.Kind != kindProbe {
		return
	}
	if found := s.inspection(g); found != nil {
		found.once[what].Do(func() { close(found.asked[what]) })
	}
}
