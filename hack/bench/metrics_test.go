package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

func TestSamplesOf_percentile(t *testing.T) {
	for sentence, tc := range map[string]struct {
		milliseconds []int
		p            float64
		want         float64
	}{
		"the median of an odd number is the middle one":        {[]int{9, 1, 5}, 0.5, 5},
		"the median of an even number is the lower of the two": {[]int{4, 1, 2, 9}, 0.5, 2},
		"a high percentile of few is the largest":              {[]int{3, 1, 2}, 0.95, 3},
		"one alone is every percentile":                        {[]int{7}, 0.01, 7},
	} {
		t.Run(sentence, func(t *testing.T) {
			var s samplesOf
			for _, ms := range tc.milliseconds {
				s = append(s, time.Duration(ms)*time.Millisecond)
			}
			if got := s.percentile(tc.p); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	m := figures.Metrics{}
	add(m, "call", samplesOf{time.Millisecond, 3 * time.Millisecond})
	if diff := cmp.Diff(figures.Metrics{"call_ms": 1, "call_p95_ms": 3}, m); diff != "" {
		t.Error(diff)
	}
}
