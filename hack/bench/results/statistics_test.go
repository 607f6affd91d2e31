package results

import (
	"math"
	"testing"
	"time"
)

func milliseconds(all ...int) []time.Duration {
	var durations []time.Duration
	for _, ms := range all {
		durations = append(durations, time.Duration(ms)*time.Millisecond)
	}
	return durations
}

func TestPercentile(t *testing.T) {
	for sentence, tc := range map[string]struct {
		milliseconds []int
		p            float64
		want         float64
	}{
		"the median of an odd number is the middle one":        {[]int{9, 1, 5}, 0.5, 5},
		"the median of an even number is the lower of the two": {[]int{4, 1, 2, 9}, 0.5, 2},
		"a high percentile of few is the largest":              {[]int{3, 1, 2}, 0.95, 3},
		"one alone is every percentile":                        {[]int{7}, 0.01, 7},
		"the whole is the largest":                             {[]int{7, 8}, 1, 8},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := Percentile(milliseconds(tc.milliseconds...), tc.p); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if got := Percentile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("of nothing it is %v", got)
	}
}

// slots are rounds, each of calls that all took the same.
func slots(done int, rounds ...int) []Slot {
	var made []Slot
	for _, ms := range rounds {
		made = append(made, Slot{Latencies: milliseconds(ms, ms, ms), Done: done, Window: time.Second, Calls: 3})
	}
	return made
}

func TestSet_ratios(t *testing.T) {
	cell := Lone("node")
	for sentence, tc := range map[string]struct {
		way, base           []Slot
		latency, throughput Ratio
	}{
		"rounds that agree have no interval": {
			slots(30, 5, 5, 5), slots(10, 50, 50, 50), Ratio{0.1, 0.1, 0.1}, Ratio{3, 3, 3},
		},
		"a slow round slows both, and the ratio stays": {
			slots(30, 5, 10, 5), slots(10, 50, 100, 50), Ratio{0.1, 0.1, 0.1}, Ratio{3, 3, 3},
		},
		"rounds that differ widen the interval": {
			slots(10, 10, 20, 40), slots(10, 10, 10, 10), Ratio{2, 1, 4}, Ratio{1, 1, 1},
		},
		"of more rounds of one way only those that both have are drawn": {
			slots(10, 10, 10), slots(10, 20, 20, 20), Ratio{0.5, 0.5, 0.5}, Ratio{1, 1, 1},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := Set{cell: {PerCall: tc.way, Original: tc.base}}
			if got := s.LatencyRatio(cell, PerCall, Original); got != tc.latency {
				t.Errorf("latency: %+v, want %+v", got, tc.latency)
			}
			if got := s.ThroughputRatio(cell, PerCall, Original); got != tc.throughput {
				t.Errorf("throughput: %+v, want %+v", got, tc.throughput)
			}
		})
	}
	if got := (Set{}).LatencyRatio(cell, PerCall, Original); !math.IsNaN(got.Value) || got.String() != "" {
		t.Errorf("what was not measured is %v", got)
	}
}

// TestSet_ratio_covers draws many runs from known distributions: the interval must
// hold the true ratio about as often as it says.
func TestSet_ratio_covers(t *testing.T) {
	const runs, truth = 40, 0.5
	held := 0
	for run := range runs {
		s := Set{}
		random := source(uint64(run))
		for range 6 {
			busy := 1 + random.Float64() // How busy the machine is in a round.
			s.Add(Lone("node"), PerCall, noisy(random, 10*busy))
			s.Add(Lone("node"), Original, noisy(random, 20*busy))
		}
		r := s.LatencyRatio(Lone("node"), PerCall, Original)
		if r.Low > r.Value || r.High < r.Value {
			t.Fatalf("the interval %v lies beside its value", r)
		}
		if r.Low <= truth && truth <= r.High {
			held++
		}
	}
	if held < runs*80/100 {
		t.Errorf("%d of %d intervals hold the ratio", held, runs)
	}
}
