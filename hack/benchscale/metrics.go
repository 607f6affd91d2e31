package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// targets are bounds that the numbers should keep.
var targets = figures.Targets{
	"scale.writes_per_function": figures.AtMost(4),
	"scale.bytes_per_function":  figures.AtMost(12 << 10),
	"scale.writes_at_rest":      figures.AtMost(0),
	"scale.growth":              figures.AtMost(1),
}

// addHeadlines adds what the rounds say together. The bytes of a function are all
// that the operator takes more than without one, so they contain a share of the
// runtimes; those of a further function do not.
func addHeadlines(m figures.Metrics, small, large result) {
	m["scale.writes_per_function"] = large.perFunction(large.applied.writes().sum())
	m["scale.bytes_per_function"] = (large.bytes - large.bytesBefore) / float64(large.functions)
	m["scale.bytes_per_further_function"] = (large.bytes - small.bytes) / float64(large.functions-small.functions)
	m["scale.writes_at_rest"] = float64(large.resting.writes().sum())
	m["scale.growth"] = large.timePerFunction() / small.timePerFunction()
}

func (r result) perFunction(count int) float64 { return float64(count) / float64(r.functions) }

func (r result) timePerFunction() float64 { return r.ready.Seconds() / float64(r.functions) }

// addTo adds the numbers of one round under its name.
func (r result) addTo(m figures.Metrics, name string) {
	const mebi = 1 << 20
	for metric, value := range map[string]float64{
		"functions":             float64(r.functions),
		"ready_s":               r.ready.Seconds(),
		"ready_ms_function":     1000 * r.timePerFunction(),
		"writes_function":       r.perFunction(r.applied.writes().sum()),
		"requests_function":     r.perFunction(r.applied.sum()),
		"apply_cpu_ms_function": r.appliedCPU.Seconds() * 1000 / float64(r.functions),
		"operator_empty_mb":     r.bytesBefore / mebi,
		"operator_mb":           r.bytes / mebi,
		"operator_restart_mb":   r.bytesRestarted / mebi,
		"edit_p50_ms":           r.editing.edits.percentile(0.5),
		"edit_p99_ms":           r.editing.edits.percentile(0.99),
		"edit.others_p50_ms":    r.editing.others.percentile(0.5),
		"edit.others_p99_ms":    r.editing.others.percentile(0.99),
		"edit.others_calls":     float64(len(r.editing.others)),
		"edit.others_failed":    float64(r.editing.failed),
		"rest_s":                r.rest.Seconds(),
		"rest_cpu_percent":      100 * r.restCPU.Seconds() / r.rest.Seconds(),
		"rest_requests":         float64(r.resting.sum()),
		"restart.stop_s":        r.stopped.Seconds(),
		"restart.served_s":      r.served.Seconds(),
		"restart.writes":        float64(r.restarted.writes().sum()),
		"restart.requests":      float64(r.restarted.sum()),
		"conflicts_function":    r.perFunction(r.applied.conflicts()),
	} {
		m[name+"."+metric] = value
	}
	for what, count := range r.applied.writes() {
		m[name+".writes."+metricName(what)] = r.perFunction(count)
	}
	for what, count := range r.restarted.writes() {
		m[name+".restart.writes."+metricName(what)] = float64(count)
	}
}

// metricName makes a name of a kind of request.
func metricName(what string) string {
	return strings.NewReplacer(" ", "_", "/", "_", "(", "", ")", "").Replace(what)
}

// conflicts counts the writes that were refused because of another one.
func (r requests) conflicts() int {
	conflicts := 0
	for what, count := range r {
		if strings.HasSuffix(what, "(409)") {
			conflicts += count
		}
	}
	return conflicts
}

// samplesOf collects durations of one thing.
type samplesOf []time.Duration

// percentile is in milliseconds.
func (s samplesOf) percentile(p float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	index := int(math.Ceil(p*float64(len(sorted)))) - 1
	return float64(sorted[max(0, index)]) / float64(time.Millisecond)
}
