package main

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// maxWaiting bounds the calls of one function that wait for processes.
	maxWaiting = 16
	// waitGrace is added to what a call is expected to wait before it starts cold
	// after all. Making a process takes longer on a busy machine, and so would a cold
	// start: this is for a process that hangs where another would not.
	waitGrace = 2 * time.Second
)

// waiter is a call that found nothing ready and waits for a process being made. No
// process is its own until one is ready: then the call that has waited longest
// gets it.
type waiter struct {
	connection *os.File
	until      time.Time // it starts cold then
}

// waitInLine lets a call wait where that is the sooner way: a cold start would be
// one more process beside those that are being made, and an execution besides. What
// calls of their own process wait for is not tied to them, so the first that is
// ready serves the first that came.
func (s *supervisor) waitInLine(p *pool, connection *os.File, now time.Time) byte {
	p.sweep(now)
	if len(p.waiting) >= p.places(now) {
		return answerCold
	}
	kept, err := duplicate(connection)
	if err != nil {
		return answerCold
	}
	if writePacket(connection, answerWait) != nil {
		kept.Close()
		return answerCold
	}
	patience := p.patience()
	p.waiting = append(p.waiting, waiter{connection: kept, until: now.Add(patience)})
	s.delay(patience)
	return answerAccepted
}

// patience is how long the call may wait that comes next.
func (p *pool) patience() time.Duration {
	turn := 1
	if p.mode == modeOnce {
		turn += len(p.waiting) / runtime.NumCPU()
	}
	return min(time.Duration(2*turn)*p.refill+waitGrace, importWait)
}

// places is how many calls a pool's processes in the making, and those that can be
// made next, are good for.
func (p *pool) places(now time.Time) int {
	promising := p.promising(now)
	switch {
	case p.mode == modeShared:
		return 0
	case p.mode == modeFork && promising > 0:
		return maxWaiting
	case now.Before(p.blockedUntil):
		return promising
	case promising > 0 || p.count(stateMaking) == 0:
		return maxWaiting
	default:
		return 0
	}
}

// promising counts the processes in the making that are not long overdue: a source
// that hangs while it is loaded is nothing to wait for.
func (p *pool) promising(now time.Time) int {
	count := 0
	for _, a := range p.attendants {
		if a.state == stateMaking && now.Sub(a.begun) < 2*p.refill+waitGrace {
			count++
		}
	}
	return count
}

// claimed is how many of the processes in the making calls will take up; one that
// forks stays for others.
func (p *pool) claimed() int {
	if p.mode == modeFork {
		return 0
	}
	return min(p.count(stateMaking), len(p.waiting))
}

// unserved is how many more processes the calls that wait need.
func (p *pool) unserved() int {
	switch {
	case len(p.waiting) == 0:
		return 0
	case p.mode == modeFork:
		return max(0, 1-p.count(stateMaking))
	default:
		return max(0, len(p.waiting)-p.count(stateMaking))
	}
}

// sweep forgets calls whose caller has gone, and lets those start cold that have
// waited long enough or have nothing to wait for.
func (p *pool) sweep(now time.Time) {
	if len(p.waiting) == 0 {
		return
	}
	staying := p.waiting[:0]
	for _, w := range p.waiting {
		switch {
		case hasGone(w.connection):
			w.connection.Close()
		case now.After(w.until):
			w.startCold()
		default:
			staying = append(staying, w)
		}
	}
	p.waiting = staying
	p.turnAway(p.places(now))
}

// turnAway lets all but the first few start cold.
func (p *pool) turnAway(staying int) {
	for len(p.waiting) > staying {
		last := len(p.waiting) - 1
		p.waiting[last].startCold()
		p.waiting = p.waiting[:last]
	}
}

func (w waiter) startCold() {
	_ = writePacket(w.connection, answerCold)
	w.connection.Close()
}

// serveWaiting hands what is ready to the calls that wait for it.
func (p *pool) serveWaiting() {
	for len(p.waiting) > 0 {
		first := p.waiting[0]
		if !hasGone(first.connection) && !p.hand(first.connection) {
			return
		}
		first.connection.Close()
		p.waiting = p.waiting[1:]
	}
}

// hand gives a call to a process that is ready, trying the next where one turns out
// to be gone. False: there is none.
func (p *pool) hand(connection *os.File) bool {
	for a := p.take(); a != nil; a = p.take() {
		if a.send(orderCall, connection) == nil {
			p.failures = 0
			return true
		}
		a.state = stateLeaving
	}
	return false
}

// hasGone reports whether a caller has closed its connection, or canceled the call,
// which it does by closing too. A process that is ready must not be spent on it.
func hasGone(connection *os.File) bool {
	raw, err := connection.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return gone || err != nil
}
