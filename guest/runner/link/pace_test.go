package link

import (
	"testing"
	"time"
)

var start0 = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func TestPace(t *testing.T) {
	const fast, slow = 2 * time.Millisecond, 10 * time.Millisecond
	for name, tc := range map[string]struct {
		executed, linked []time.Duration
		refused          int
		want             bool
	}{
		"nothing is known":                  {want: true},
		"the link is faster":                {executed: repeat(slow, 8), linked: repeat(fast, 8), want: true},
		"as fast is fast enough":            {executed: repeat(fast, 8), linked: repeat(fast, 8), want: true},
		"the link is slower":                {executed: repeat(fast, 8), linked: repeat(slow, 8)},
		"too few calls over the link":       {executed: repeat(fast, 8), linked: repeat(slow, 7), want: true},
		"too few executions":                {executed: repeat(fast, 7), linked: repeat(slow, 8), want: true},
		"one slow call among others":        {executed: repeat(slow, 8), linked: append(repeat(fast, 7), 3*slow), want: true},
		"it has become slower":              {executed: repeat(slow, 8), linked: append(repeat(fast, 20), repeat(4*slow, 4)...)},
		"the guest runs none":               {executed: repeat(slow, 8), refused: 8},
		"the guest does not run one":        {executed: repeat(slow, 8), linked: repeat(fast, 8), refused: 1, want: true},
		"less than the handler's own time":  {executed: repeat(-slow, 8), linked: repeat(-fast, 8), want: true},
		"executions have become the slower": {executed: append(repeat(fast, 8), repeat(3*slow, 20)...), linked: repeat(slow, 8), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var p pace
			for _, d := range tc.executed {
				p.executed(d)
			}
			for _, d := range tc.linked {
				p.linked(d, start0)
			}
			for range tc.refused {
				p.refused(fast, start0)
			}
			if got := p.usesLink(start0); got != tc.want {
				t.Errorf("the link is used: %t, want %t", got, tc.want)
			}
		})
	}
}

func repeat(d time.Duration, times int) []time.Duration {
	list := make([]time.Duration, times)
	for i := range list {
		list[i] = d
	}
	return list
}

func TestPace_triesAgain(t *testing.T) {
	var p pace
	for range enoughSamples {
		p.executed(time.Millisecond)
		p.linked(time.Second, start0)
	}
	later := start0.Add(slowPause)
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
