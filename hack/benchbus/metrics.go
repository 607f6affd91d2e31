package main

import (
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// targets are bounds that the numbers should keep.
var targets = figures.Targets{"bus.p50_ratio": figures.AtMost(4), "bus.calls_per_s": figures.AtLeast(20_000)}

// latencies stores the percentiles, in microseconds, and the throughput of a
// load.
func latencies(m figures.Metrics, name string, l load) {
	m[name+".p50_us"] = float64(l.percentile(0.5)) / float64(time.Microsecond)
	m[name+".p99_us"] = float64(l.percentile(0.99)) / float64(time.Microsecond)
	m[name+".per_s"] = l.perSecond()
}
