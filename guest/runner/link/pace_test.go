package link

import (
	"testing"
	"time"
)

var start0 = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

const fast, slow = 2 * time.Millisecond, 10 * time.Millisecond

// cost is what a call takes over and above the handler, by its number.
type cost func(call int) time.Duration

func each(d time.Duration) cost { return func(int) time.Duration { return d } }

// since costs d from a call on, and before that what is usual.
func (usual cost) since(first int, d time.Duration) cost {
	return func(call int) time.Duration {
		if call < first {
			return usual(call)
		}
		return d
	}
}

// paced has calls go the ways that a pace chooses, 1 ms apart, after executions from
// before there was a link. It returns how many went over the link.
func paced(p *pace, before time.Duration, executions, calls int, exec, link cost) (linked int) {
	for range executions {
		p.executed(before)
	}
	for i := range calls {
		now := start0.Add(time.Duration(i) * time.Millisecond)
		if !p.usesLink(now) {
			p.executed(exec(i))
			continue
		}
		linked++
		p.linked(link(i), now)
	}
	return linked
}

func TestPace(t *testing.T) {
	const calls, trial = 1000, enoughSamples * trialShare
	for name, tc := range map[string]struct {
		before     time.Duration
		executions int
		exec, link cost
		// atLeast and atMost are how many of the calls go over the link.
		atLeast, atMost int
	}{
		"the link is faster":               {slow, 8, each(slow), each(fast), calls, calls},
		"as fast is fast enough":           {fast, 8, each(fast), each(fast), calls, calls},
		"too few executions to tell":       {fast, 7, each(fast), each(slow), calls, calls},
		"less than the handler's own time": {-slow, 8, each(-slow), each(-fast), calls, calls},
		"one slow call among others":       {slow, 8, each(slow), func(call int) time.Duration { return each(fast).since(20, 3*slow).since(21, fast)(call) }, calls, calls},
		"the link is slower":               {fast, 8, each(fast), each(slow), enoughSamples, 2 * trial},
		"it has become slower":             {slow, 8, each(slow), each(fast).since(500, 4*slow), 500, 500 + 2*trial},
		"all has become slower":            {fast, 8, each(2 * slow), each(slow), calls - trial, calls - 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := paced(&pace{}, tc.before, tc.executions, calls, tc.exec, tc.link); got < tc.atLeast || got > tc.atMost {
				t.Errorf("%d of %d calls went over the link, want %d to %d", got, calls, tc.atLeast, tc.atMost)
			}
		})
	}
}

// A call that the guest does not run is executed after that, so that the link is
// always the slower way.
func TestPace_refused(t *testing.T) {
	for name, tc := range map[string]struct {
		every int
		rests bool
	}{
		"each call is refused":   {1, true},
		"one of many is refused": {50, false},
	} {
		t.Run(name, func(t *testing.T) {
			var p pace
			for range enoughSamples {
				p.executed(slow)
			}
			for i := range 200 {
				switch {
				case !p.usesLink(start0):
					p.executed(slow)
				case i%tc.every == 0:
					p.refused(fast, start0)
					p.executed(slow)
				default:
					p.linked(fast, start0)
				}
			}
			if got := !p.usesLink(start0); got != tc.rests {
				t.Errorf("the link rests: %t, want %t", got, tc.rests)
			}
		})
	}
}

func TestPace_triesAgain(t *testing.T) {
	var p pace
	paced(&p, fast, enoughSamples, 1000, each(fast), each(slow))
	if p.trial || p.until.IsZero() {
		t.Fatal("the slower link does not rest")
	}
	later := p.until
	if p.usesLink(later.Add(-1)) || !p.usesLink(later) {
		t.Fatal("the link is not left alone for exactly the pause")
	}
	for range 2 * enoughSamples {
		p.linked(0, later)
	}
	if !p.usesLink(later) {
		t.Error("what was before the pause still counts")
	}
}

func TestBurst(t *testing.T) {
	for name, tc := range map[string]struct {
		calls    int
		distance time.Duration
		want     bool
	}{
		"enough within the time": {calls: burstCalls, distance: burstWindow / (burstCalls - 1), want: true},
		"one call less":          {calls: burstCalls - 1},
		"enough, but too far":    {calls: 10 * burstCalls, distance: burstWindow / 6},
		"at the same time":       {calls: burstCalls, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var b burst
			var got bool
			for i := range tc.calls {
				got = b.add(start0.Add(time.Duration(i) * tc.distance))
			}
			if got != tc.want {
				t.Errorf("frequent: %t, want %t", got, tc.want)
			}
		})
	}
}
