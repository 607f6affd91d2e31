package namespaces

import (
	"context"
	"sync"
)

// spares keeps one agent ready: started in its namespaces and control groups, but
// told nothing yet and part of no guest. Starting a process into control groups
// costs several times what is left of a boot after it; that is done while nobody
// waits. A spare fits the limits that were asked for last.
type spares struct {
	wanted bool

	mu     sync.Mutex
	ready  *machine
	making chan struct{}
	closed bool
}

// take returns a waiting agent with the limits, or nil. It waits for one that is
// being made.
func (s *spares) take(ctx context.Context, limits cgroupLimits) *machine {
	if !s.wanted {
		return nil
	}
	s.mu.Lock()
	making := s.making
	// Whoever comes next finds nothing to wait for.
	s.making = nil
	s.mu.Unlock()
	if making != nil {
		select {
		case <-making:
		case <-ctx.Done():
			return nil
		}
	}
	s.mu.Lock()
	m := s.ready
	s.ready = nil
	s.mu.Unlock()
	if m == nil {
		return nil
	}
	if m.limits == limits && !m.hasEnded() {
		return m
	}
	m.abandon()
	return nil
}

// refill makes the next spare, beside its caller.
func (s *spares) refill(b *Backend, limits cgroupLimits) {
	if !s.wanted {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ready != nil || s.making != nil {
		return
	}
	made := make(chan struct{})
	s.making = made
	b.closing.Go(func() {
		defer close(made)
		m, err := b.prepare(limits)
		if err != nil {
			// The next boot meets the same and reports it.
			b.logger.Debug("Making a spare agent failed", "error", err)
		}
		s.keep(m, made)
	})
}

// keep stores a spare, unless another one or the end came first.
func (s *spares) keep(m *machine, made chan struct{}) {
	s.mu.Lock()
	if s.making == made {
		s.making = nil
	}
	refused := m != nil && (s.closed || s.ready != nil)
	if !refused && m != nil {
		s.ready = m
	}
	s.mu.Unlock()
	if refused {
		m.abandon()
	}
}

// Prepare makes the spare for guests of that size and returns once it waits. It
// does nothing without Options.Spare.
func (b *Backend) Prepare(ctx context.Context, cpus, memoryMiB int) error {
	b.spares.refill(b, b.limits(cpus, memoryMiB))
	b.spares.mu.Lock()
	making := b.spares.making
	b.spares.mu.Unlock()
	if making == nil {
		return nil
	}
	select {
	case <-making:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends the spare; one that is being made ends as soon as it is.
func (s *spares) close() {
	s.mu.Lock()
	m := s.ready
	s.ready, s.closed = nil, true
	s.mu.Unlock()
	if m != nil {
		m.abandon()
	}
}

func (m *machine) hasEnded() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}
