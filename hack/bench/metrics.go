package main

import (
	"math"
	"slices"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// targets are bounds that the numbers should keep.
var targets = figures.Targets{
	"call.exec_ratio": figures.AtMost(1.5), "call.exec_ratio_python": figures.AtMost(1.5),
}

// samplesOf collects durations of one thing.
type samplesOf []time.Duration

func (s samplesOf) percentile(p float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	index := int(math.Ceil(p*float64(len(sorted)))) - 1
	return milliseconds(sorted[max(0, index)])
}

func (s samplesOf) median() float64 { return s.percentile(0.5) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// add stores the median under the name and the 95th percentile beside it.
func add(m figures.Metrics, name string, s samplesOf) {
	m[name+"_ms"] = s.median()
	m[name+"_p95_ms"] = s.percentile(0.95)
}
