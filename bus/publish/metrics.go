package publish

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// outcomeOK is the outcome of a call whose handler gave a result; any other
// outcome is a Code.
const outcomeOK = "ok"

// Metrics counts the calls of published functions. Its labels have few values,
// which do not grow with the number of functions.
type Metrics struct {
	calls *prometheus.CounterVec
	// answered is that of calls with a result, starts those of the known words: to
	// find them by their labels takes as long as all else about counting.
	answered prometheus.Counter
	starts   map[string]prometheus.Counter
	duration prometheus.Histogram
	inFlight prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_function_calls_total",
			Help: "Calls of published functions by outcome: ok, or the code of the error.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "sandbox_function_call_duration_seconds",
			Help:    "Time from a call's arrival to its answer, queueing and boot included.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 16),
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sandbox_function_calls_in_flight",
			Help: "Calls of published functions that have arrived and are not answered yet.",
		}),
	}
	starts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbox_function_process_starts_total",
		Help: "Calls by how their process came about: cold, ready (it waited for the call), forked or shared.",
	}, []string{"start"})
	for _, c := range []prometheus.Collector{m.calls, starts, m.duration, m.inFlight} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	m.answered, m.starts = m.calls.WithLabelValues(outcomeOK), map[string]prometheus.Counter{}
	for _, start := range []string{wire.StartCold, wire.StartReady, wire.StartForked, wire.StartShared} {
		m.starts[start] = starts.WithLabelValues(start)
	}
	return m, nil
}

// started counts how the process of a call came about, if one did. What is said is
// the guest's word, so only known words become labels.
func (m *Metrics) started(start string) {
	if m == nil {
		return
	}
	if counter, known := m.starts[start]; known {
		counter.Inc()
	}
}

// begin counts a call that arrived; the returned function counts its end. A nil
// Metrics counts nothing.
func (m *Metrics) begin() (end func(error)) {
	if m == nil {
		return func(error) {}
	}
	start := time.Now()
	m.inFlight.Inc()
	return func(err error) {
		m.inFlight.Dec()
		m.duration.Observe(time.Since(start).Seconds())
		if err == nil {
			m.answered.Inc()
			return
		}
		m.calls.WithLabelValues(string(asCallError(err).Code)).Inc()
	}
}
