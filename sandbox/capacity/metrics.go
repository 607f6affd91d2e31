package capacity

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics counts what the broker does. Its only label is the class.
type Metrics struct {
	waiting   *prometheus.GaugeVec
	waited    *prometheus.HistogramVec
	gone      *prometheus.CounterVec
	refusals  prometheus.Counter
	displaced prometheus.Counter
}

// NewMetrics registers the metrics; it panics if they are registered already.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	factory := promauto.With(registerer)
	m := &Metrics{
		waiting: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sandbox_capacity_waiting",
			Help: "Creates that wait for a place in the sandbox daemon.",
		}, []string{"class"}),
		waited: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sandbox_capacity_wait_seconds",
			Help:    "Time from a create's first refusal, or its queueing, to its place.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 16),
		}, []string{"class"}),
		gone: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_capacity_unserved_total",
			Help: "Creates that found no place in their time.",
		}, []string{"class"}),
		refusals: factory.NewCounter(prometheus.CounterOpts{
			Name: "sandbox_capacity_refusals_total",
			Help: "Answers of the sandbox daemon that it takes no further sandbox.",
		}),
		displaced: factory.NewCounter(prometheus.CounterOpts{
			Name: "sandbox_capacity_displaced_total",
			Help: "Idle sandboxes that were stopped to make room.",
		}),
	}
	for _, c := range Classes() {
		m.waiting.WithLabelValues(string(c))
		m.gone.WithLabelValues(string(c))
	}
	return m
}

func (m *Metrics) waits(w *waiter) {
	w.counted = w.ticket.Class()
	if m != nil {
		m.waiting.WithLabelValues(string(w.counted)).Inc()
	}
}

// served counts the end of a wait for a place, if there was one.
func (m *Metrics) served(w *waiter) {
	if m == nil || w.waitsSince.IsZero() {
		return
	}
	m.waiting.WithLabelValues(string(w.counted)).Dec()
	m.waited.WithLabelValues(string(w.counted)).Observe(w.waited.Seconds())
}

func (m *Metrics) gaveUp(w *waiter) {
	if m != nil {
		m.waiting.WithLabelValues(string(w.counted)).Dec()
		m.gone.WithLabelValues(string(w.counted)).Inc()
	}
}

func (m *Metrics) refused() {
	if m != nil {
		m.refusals.Inc()
	}
}

func (m *Metrics) displacedOne() {
	if m != nil {
		m.displaced.Inc()
	}
}
