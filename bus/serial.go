package bus

import (
	"context"
	"sync"
)

// serial runs functions one after another, in order, on the goroutine of run.
// It has no bound, so that push never blocks a connection's reader.
type serial struct {
	mu    sync.Mutex
	queue []func()
	wake  chan struct{}
}

func newSerial() *serial { return &serial{wake: make(chan struct{}, 1)} }

func (s *serial) push(f func()) {
	s.mu.Lock()
	s.queue = append(s.queue, f)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run works until ctx ends, and then through what is left.
func (s *serial) run(ctx context.Context) {
	for {
		for f := s.pop(); f != nil; f = s.pop() {
			f()
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			for f := s.pop(); f != nil; f = s.pop() {
				f()
			}
			return
		}
	}
}

func (s *serial) pop() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	f := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	return f
}
