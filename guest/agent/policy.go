package main

import (
	"math"
	"slices"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// warmAfterCall is how long a function keeps a process ready after a call.
	warmAfterCall = 10 * time.Minute
	// maxReadyAge is when a process that waits for its first call is replaced:
	// what its source has read or connected to while loading grows stale.
	maxReadyAge = 10 * time.Minute
	// burstMemory is how long the largest burst of calls is remembered.
	burstMemory = 30 * time.Second
	// maxReady bounds the processes that wait for the calls of one function.
	maxReady = 16
	// maxShared bounds the processes that the calls of one function share.
	maxShared = 16
	// spareSharedAge is when a shared process is ended that others make superfluous.
	spareSharedAge = time.Minute

	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// usualBytes is what a process is taken to need until one has been measured.
var usualBytes = map[wire.Language]int64{wire.Node: 40 << 20, wire.Python: 12 << 20}

// mode is how processes of a pool serve calls.
type mode int

const (
	modeOnce   mode = iota // one call each
	modeFork               // one process, forked for each call
	modeShared             // one call after the other
)

// demand is what is known of the calls of one function.
type demand struct {
	last  time.Time // of the last call, or of the planting
	burst float64   // calls not yet made up for by processes made since
	peak  float64   // the largest burst, fading
}

// called takes a call into account. refill is how long making a process takes:
// while calls come further apart than that, one ready process is enough.
func (d demand) called(now time.Time, refill time.Duration) demand {
	if passed := now.Sub(d.last); passed > 0 && !d.last.IsZero() {
		d.burst = max(0, d.burst-passed.Seconds()/max(refill.Seconds(), 0.001))
		d.peak *= math.Exp(-passed.Seconds() / burstMemory.Seconds())
	}
	d.burst = min(d.burst+1, maxReady)
	d.peak = max(d.peak, d.burst)
	d.last = now
	return d
}

// wanted is the number of ready processes that the demand justifies.
func (d demand) wanted(now time.Time, how mode) int {
	passed := now.Sub(d.last)
	switch {
	case d.last.IsZero() || passed > warmAfterCall:
		return 0
	case how != modeOnce:
		return 1
	}
	peak := d.peak * math.Exp(-passed.Seconds()/burstMemory.Seconds())
	return min(max(int(math.Ceil(peak)), 1), maxReady)
}

// refillPause keeps the making of the next process out of a call's way.
const refillPause = 10 * time.Millisecond

// pause is how long making a process can wait: where calls come one at a time, until
// the one that has just come is over; a burst needs what it can get.
func (d demand) pause(now time.Time) time.Duration {
	if d.peak >= 2 {
		return 0
	}
	return max(0, refillPause-now.Sub(d.last))
}

// poolView is what the policy needs to know of one pool.
type poolView struct {
	demand
	mode mode
	// bytes: memory of one of its processes.
	bytes int64
	// present: processes that wait for calls or are being made.
	present int
	// held: further processes of it that take memory.
	held    int
	blocked bool // it is not to be tried again yet
}

// allot says how many ready processes each pool should have. Every function gets
// its first before any gets its second, the one called last first, as far as the
// memory goes. Pools that are blocked keep what they have.
func allot(now time.Time, pools []poolView, budget int64) []int {
	order := make([]int, len(pools))
	for i := range pools {
		order[i] = i
		budget -= int64(pools[i].held) * pools[i].bytes
	}
	slices.SortStableFunc(order, func(a, b int) int { return pools[b].last.Compare(pools[a].last) })
	allotted := make([]int, len(pools))
	for _, least := range []bool{true, false} {
		for _, i := range order {
			want := pools[i].wanted(now, pools[i].mode)
			if pools[i].blocked {
				want = min(want, pools[i].present)
			}
			if least {
				want = min(want, 1)
			}
			for allotted[i] < want && budget >= pools[i].bytes {
				allotted[i]++
				budget -= pools[i].bytes
			}
		}
	}
	return allotted
}

// backoff is how long to wait after some failures in a row.
func backoff(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(minBackoff<<min(failures-1, 20), maxBackoff)
}
