package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// demandOf is what calls at a steady pace amount to.
func demandOf(start time.Time, calls int, apart, refill time.Duration) (demand, time.Time) {
	var d demand
	now := start
	for range calls {
		d = d.called(now, refill)
		now = now.Add(apart)
	}
	return d, now
}

func TestDemand_wanted(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	const refill = 50 * time.Millisecond
	tests := map[string]struct {
		calls int
		apart time.Duration
		after time.Duration // since the last
		mode  mode
		want  int
	}{
		"never called":                                    {0, 0, 0, modeOnce, 0},
		"called once":                                     {1, 0, 0, modeOnce, 1},
		"calls further apart than a refill":               {100, 200 * time.Millisecond, 0, modeOnce, 1},
		"a burst of eight":                                {8, 0, 0, modeOnce, 8},
		"a burst beyond the bound":                        {100, 0, 0, modeOnce, maxReady},
		"a pace that refilling one by one cannot keep up": {100, 20 * time.Millisecond, 0, modeOnce, maxReady},
		"a burst that is two minutes past":                {8, 0, 2 * time.Minute, modeOnce, 1},
		"the last call is minutes past":                   {8, 0, warmAfterCall - time.Second, modeOnce, 1},
		"the last call is long past":                      {8, 0, warmAfterCall + time.Second, modeOnce, 0},
		"a fork serves any burst":                         {100, 0, 0, modeFork, 1},
		"a fork long after its last call":                 {1, 0, warmAfterCall + time.Second, modeFork, 0},
		"a shared process is made by its calls":           {100, 0, 0, modeShared, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d, now := demandOf(start, tc.calls, tc.apart, refill)
			if got := d.wanted(now.Add(tc.after), tc.mode); got != tc.want {
				t.Errorf("want %d, got %d (%+v)", tc.want, got, d)
			}
		})
	}
}

func TestAllot(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	const unit = 10
	ago := func(seconds int, burst float64) demand {
		return demand{last: now.Add(-time.Duration(seconds) * time.Second), burst: burst, peak: burst}
	}
	view := func(d demand) poolView { return poolView{demand: d, bytes: unit} }
	held := func(v poolView, count int) poolView { v.held = count; return v }
	blocked := func(v poolView, present int) poolView { v.blocked, v.present = true, present; return v }
	tests := map[string]struct {
		pools  []poolView
		budget int64
		want   []int
	}{
		"nothing":                              {nil, 100, []int{}},
		"enough for all":                       {[]poolView{view(ago(0, 3)), view(ago(0, 2))}, 100, []int{3, 2}},
		"each its first before any its second": {[]poolView{view(ago(0, 8)), view(ago(1, 1)), view(ago(2, 1))}, 40, []int{2, 1, 1}},
		"the one called last goes first":       {[]poolView{view(ago(20, 1)), view(ago(1, 1)), view(ago(9, 1))}, 20, []int{0, 1, 1}},
		"no memory":                            {[]poolView{view(ago(0, 1))}, unit - 1, []int{0}},
		"what calls hold is taken":             {[]poolView{held(view(ago(0, 8)), 3)}, 50, []int{2}},
		"a blocked pool gets no more":          {[]poolView{blocked(view(ago(0, 8)), 1), blocked(view(ago(0, 8)), 0)}, 100, []int{1, 0}},
		"a function that nobody calls":         {[]poolView{view(ago(3600, 8))}, 100, []int{0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, allot(now, tc.pools, tc.budget)); diff != "" {
				t.Errorf("allotted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDemand_pause(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	single, _ := demandOf(start, 1, 0, time.Second)
	burst, _ := demandOf(start, 4, 0, time.Second)
	tests := map[string]struct {
		demand demand
		after  time.Duration
		want   time.Duration
	}{
		"a single call":          {single, 0, refillPause},
		"a single call, soon":    {single, refillPause / 2, refillPause / 2},
		"a single call, later":   {single, time.Second, 0},
		"a burst waits for none": {burst, 0, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.demand.pause(start.Add(tc.after)); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	var got []time.Duration
	for _, failures := range []int{0, 1, 2, 5, 40} {
		got = append(got, backoff(failures))
	}
	want := []time.Duration{0, time.Second, 2 * time.Second, 16 * time.Second, maxBackoff}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("backoff (-want +got):\n%s", diff)
	}
}

func TestPool_shrink(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	old := now.Add(-maxReadyAge - time.Second)
	idle := func(begun, since time.Time) *attendant {
		return &attendant{state: stateReady, begun: begun, since: since}
	}
	tests := map[string]struct {
		mode     mode
		pool     []*attendant
		allotted int
		want     []state
	}{
		"as many as allotted":               {modeOnce, []*attendant{idle(now, now), idle(now, now)}, 2, []state{stateReady, stateReady}},
		"the oldest of too many goes":       {modeOnce, []*attendant{idle(now, now), idle(now, now)}, 1, []state{stateLeaving, stateReady}},
		"a stale one waits for another":     {modeOnce, []*attendant{idle(old, old)}, 1, []state{stateReady}},
		"a stale one goes when another is":  {modeFork, []*attendant{idle(old, old), idle(now, now)}, 1, []state{stateLeaving, stateReady}},
		"a stale one that nobody calls":     {modeOnce, []*attendant{idle(old, old)}, 0, []state{stateLeaving}},
		"one at a call stays":               {modeOnce, []*attendant{{state: stateBusy, begun: old}}, 0, []state{stateBusy}},
		"a shared one does not age":         {modeShared, []*attendant{idle(old, now)}, 1, []state{stateReady}},
		"spare shared ones stay for a time": {modeShared, []*attendant{idle(old, now), idle(old, now)}, 1, []state{stateReady, stateReady}},
		"and go then":                       {modeShared, []*attendant{idle(old, now.Add(-2*spareSharedAge)), idle(old, now)}, 1, []state{stateLeaving, stateReady}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := &pool{mode: tc.mode, attendants: tc.pool}
			p.shrink(now, tc.allotted)
			var got []state
			for _, a := range p.attendants {
				got = append(got, a.state)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}
