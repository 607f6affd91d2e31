package main

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
)

// askWait is how long a connection may take to say what it wants.
const askWait = 5 * time.Second

// accept serves connections until the listener is closed.
func (s *supervisor) accept() {
	for {
		fd, _, err := syscall.Accept4(s.listener, syscall.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.ECONNABORTED):
			continue
		case err != nil:
			// Too many open files among others: without a supervisor calls start cold,
			// and the next one starts a new supervisor.
			s.leave()
			return
		}
		if connection, err := socketFile(fd); err == nil {
			go s.serve(connection)
		}
	}
}

func (s *supervisor) leave() {
	select {
	case s.quit <- struct{}{}:
	default:
	}
}

// serve answers what comes over one connection, until a keeper takes it over.
func (s *supervisor) serve(connection *os.File) {
	defer connection.Close()
	for {
		_ = connection.SetDeadline(time.Now().Add(askWait))
		asked, err := readPacket(connection, maxAskBytes)
		if err != nil {
			return
		}
		answer := byte(answerDone)
		switch asked.kind {
		case askCall:
			answer = s.dispatch(string(asked.body), connection)
			if answer == answerAccepted {
				return
			}
		case askWarm:
			s.warm(asked.body)
		case askUnplant:
			s.retire(func(p *pool) bool { return p.spec.Digest == string(asked.body) }, true)
		case askRenew:
			s.retire(func(*pool) bool { return true }, false)
		case askLink:
			_ = connection.SetDeadline(time.Now().Add(linkWait + quickAnswer))
			answer = s.askForLink(asked.body)
		case askQuit:
			_ = writePacket(connection, answer)
			s.leave()
			return
		}
		if writePacket(connection, answer) != nil {
			return
		}
	}
}

// dispatch hands a call's connection to a process that is ready, or has it wait for
// one that is being made. What it returns is the answer, unless that is
// answerAccepted: then the keeper's is to come, or answerCold after all.
func (s *supervisor) dispatch(key string, connection *os.File) byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	defer s.wake()
	p := s.pools[key]
	if p == nil {
		return answerUnknown
	}
	now := time.Now()
	p.demand = p.demand.called(now, p.refill)
	if p.hand(connection) {
		return answerAccepted
	}
	switch {
	case p.mode != modeShared:
		return s.waitInLine(p, connection, now)
	case now.Before(p.blockedUntil):
		return answerCold
	default:
		return s.waitFor(p, connection)
	}
}

// waitFor lets a call wait for the process that is being made, or has one made.
// What calls share is not to be had in any other way.
func (s *supervisor) waitFor(p *pool, connection *os.File) byte {
	a := p.making()
	if a == nil && (p.serving() >= maxShared || !s.affords(p)) {
		return answerCold
	}
	pending, err := duplicate(connection)
	if err != nil {
		return answerCold
	}
	if writePacket(connection, answerWait) != nil {
		pending.Close()
		return answerCold
	}
	if a == nil {
		a = s.attend(p, stateMaking)
	}
	a.state, a.pending = stateBusy, pending
	if a.control != nil {
		a.handPending()
	}
	return answerAccepted
}

// affords reports whether there is memory for one more process of a pool.
func (s *supervisor) affords(p *pool) bool {
	taken := p.bytes
	for a := range s.attendants {
		taken += a.pool.bytes
	}
	return taken <= s.budget
}

// warm adds a pool, or counts it as asked for.
func (s *supervisor) warm(body []byte) {
	var spec warmSpec
	if json.Unmarshal(body, &spec) != nil || !isDigest(spec.Digest) || spec.Language.Extension() == "" {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := spec.key()
	p := s.pools[key]
	if p == nil {
		if len(s.pools) >= maxPools {
			return
		}
		p = newPool(spec)
		s.pools[key] = p
	}
	p.demand = p.demand.called(time.Now(), p.refill)
	s.wake()
}

// retire ends the processes of pools, after the calls they are at. Forgotten
// pools are not filled again.
func (s *supervisor) retire(which func(*pool) bool, forget bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for key, p := range s.pools {
		if !which(p) {
			continue
		}
		for _, a := range p.attendants {
			if a.state != stateLeaving {
				a.dismiss()
			}
		}
		p.failures, p.blockedUntil = 0, time.Time{}
		if forget {
			p.turnAway(0)
			delete(s.pools, key)
		}
	}
	s.wake()
}

func duplicate(file *os.File) (*os.File, error) {
	descriptor, err := descriptorOf(file)
	if err != nil {
		return nil, err
	}
	copied, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(descriptor), syscall.F_DUPFD_CLOEXEC, 0)
	runtime.KeepAlive(file)
	if errno != 0 {
		return nil, os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", errno)
	}
	return os.NewFile(copied, "pending"), nil
}
