package main

import (
	"slices"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// state is what a keeper is at.
type state int

const (
	stateMaking  state = iota // its interpreter loads the source
	stateReady                // it waits for a call; where it forks, it also has some
	stateBusy                 // it has a call and can take no other
	stateLeaving              // it takes no more calls
)

// pool are the keepers of one spec. The supervisor's lock guards it.
type pool struct {
	spec       warmSpec
	mode       mode
	demand     demand
	refill     time.Duration
	bytes      int64
	attendants []*attendant
	// waiting are calls that found nothing ready, the first one first.
	waiting      []waiter
	failures     int
	blockedUntil time.Time
}

const usualRefill = 100 * time.Millisecond

func newPool(spec warmSpec) *pool {
	p := &pool{spec: spec, refill: usualRefill, bytes: usualBytes[spec.Language]}
	switch {
	case spec.Shared:
		p.mode = modeShared
	case spec.Language == wire.Python:
		p.mode = modeFork // until a process says that it cannot be forked
	}
	return p
}

func (p *pool) count(wanted state) int {
	count := 0
	for _, a := range p.attendants {
		if a.state == wanted {
			count++
		}
	}
	return count
}

// making is a process that loads the source and that no call waits for yet.
func (p *pool) making() *attendant {
	for _, a := range p.attendants {
		if a.state == stateMaking {
			return a
		}
	}
	return nil
}

// unstarted are keepers that calls have asked for.
func (p *pool) unstarted() (found []*attendant) {
	for _, a := range p.attendants {
		if a.control == nil && a.state != stateLeaving {
			found = append(found, a)
		}
	}
	return found
}

func (p *pool) forgettable(now time.Time) bool {
	return len(p.attendants) == 0 && now.Sub(p.demand.last) > forgetPool
}

func (p *pool) view(now time.Time) poolView {
	view := poolView{demand: p.demand, mode: p.mode, bytes: p.bytes, blocked: now.Before(p.blockedUntil)}
	for _, a := range p.attendants {
		switch a.state {
		case stateMaking, stateReady:
			view.present++
		case stateBusy:
			view.held++
		}
	}
	// What calls wait for is as good as taken.
	claimed := p.claimed()
	view.present -= claimed
	view.held += claimed
	// A shared process that is at a call is there for the next one, too.
	if p.mode == modeShared && view.held > 0 {
		view.held--
		view.present++
	}
	return view
}

// fresh counts the processes that need no replacement and that no call waits for.
func (p *pool) fresh(now time.Time) int {
	count := -p.claimed()
	for _, a := range p.attendants {
		if a.state == stateMaking || a.state == stateReady && !p.isStale(a, now) || a.state == stateBusy && p.mode == modeShared {
			count++
		}
	}
	return count
}

// isStale: a shared process is no older than the state that calls want to share.
func (p *pool) isStale(a *attendant, now time.Time) bool {
	return p.mode != modeShared && now.Sub(a.begun) > maxReadyAge
}

// shrink ends what is more than was allotted, the oldest first, and the stale
// ones once others have taken their place.
func (p *pool) shrink(now time.Time, allotted int) {
	fresh, ready := p.fresh(now), 0
	for _, a := range p.attendants {
		if a.state == stateReady && !p.isStale(a, now) {
			ready++
		}
	}
	for _, a := range slices.Clone(p.attendants) {
		if a.state != stateReady {
			continue
		}
		switch {
		case p.isStale(a, now):
			if allotted == 0 || ready > 0 {
				a.dismiss()
			}
		case fresh > allotted && (p.mode != modeShared || allotted == 0 || now.Sub(a.since) > spareSharedAge):
			a.dismiss()
			fresh--
			ready--
		}
	}
}

// take finds a process for a call, nil if none is ready.
func (p *pool) take() *attendant {
	var best *attendant
	for _, a := range p.attendants {
		if a.state != stateReady {
			continue
		}
		// The latest used, so that superfluous ones can be told.
		if best == nil || p.mode == modeShared && a.since.After(best.since) {
			best = a
		}
	}
	if best != nil && !best.forks {
		best.state = stateBusy
	}
	return best
}

func (p *pool) remove(a *attendant) {
	p.attendants = slices.DeleteFunc(p.attendants, func(other *attendant) bool { return other == a })
}

// ready takes into account what making a process took and has come to.
func (p *pool) ready(a *attendant, found report, now time.Time) {
	p.refill = (p.refill + now.Sub(a.begun)) / 2
	a.forks = found.Forks
	switch {
	case p.spec.Shared:
	case found.Forks:
		p.mode = modeFork
	default:
		p.mode = modeOnce
	}
}

// failed takes a keeper's unexpected end into account.
func (p *pool) failed(now time.Time) {
	p.failures++
	p.blockedUntil = now.Add(backoff(p.failures))
}

// serving counts the processes that take calls or will.
func (p *pool) serving() int { return len(p.attendants) - p.count(stateLeaving) }
