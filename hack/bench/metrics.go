package main

import (
	"maps"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// targets are bounds that the numbers should keep.
var targets = withTargets(figures.Targets{
	"call.exec_ratio": figures.AtMost(1.5), "call.exec_ratio_python": figures.AtMost(1.5),
})

func withTargets(more figures.Targets) figures.Targets {
	all := maps.Clone(results.Targets)
	maps.Copy(all, more)
	return all
}

// samplesOf collects durations of one thing.
type samplesOf []time.Duration

func (s samplesOf) median() float64 { return results.Percentile(s, 0.5) }

// add stores the median under the name and the 95th percentile beside it.
func add(m figures.Metrics, name string, s samplesOf) {
	m[name+"_ms"] = s.median()
	m[name+"_p95_ms"] = results.Percentile(s, 0.95)
}
