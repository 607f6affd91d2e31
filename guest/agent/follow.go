package main

import "time"

// settledAfter is how long a process that waits must have lived for its end to be
// no sign that another would fare the same.
const settledAfter = 10 * time.Second

// follow takes a keeper's reports until it ends.
func (s *supervisor) follow(a *attendant) {
	for {
		kind, found, err := a.receive()
		if err != nil {
			break
		}
		s.reported(a, kind, found)
	}
	_ = a.command.Wait()
	s.gone(a)
}

func (s *supervisor) reported(a *attendant, kind byte, found report) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := time.Now()
	p := a.pool
	if kind == reportOrder {
		a.owed, a.silent = a.owed-1, now
		return
	}
	if found.Bytes > 0 {
		p.bytes = found.Bytes
	}
	if kind == reportLeaving {
		if a.state == stateReady {
			p.failed(now) // nobody has asked for it
		}
		a.state = stateLeaving
		s.wake()
		return
	}
	a.since = now
	if kind == reportReady {
		p.ready(a, found, now)
	}
	// One that was made for a call is at that call.
	if a.state == stateMaking || kind == reportIdle && a.state == stateBusy {
		a.state = stateReady
	}
	if kind == reportIdle {
		_ = a.send(orderNoted)
	}
	p.serveWaiting()
	s.wake()
}

func (s *supervisor) gone(a *attendant) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if a.pending != nil {
		a.pending.Close()
	}
	if a.control != nil {
		a.control.Close()
	}
	delete(s.attendants, a)
	a.pool.remove(a)
	now := time.Now()
	neverReady := a.since.IsZero() && a.state != stateLeaving
	if neverReady || a.state == stateReady && now.Sub(a.since) < settledAfter {
		a.pool.failed(now)
	}
	a.state = stateLeaving
	s.wake()
}
