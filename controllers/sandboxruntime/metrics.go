package sandboxruntime

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
)

// Metrics counts the sandboxes of runtimes. Its labels do not grow with the
// number of runtimes.
type Metrics struct {
	boots    *prometheus.CounterVec
	duration prometheus.Histogram
	lost     prometheus.Counter
	// postponed counts deletions that did not wait for the daemon any longer.
	postponed prometheus.Counter
}

// NewMetrics registers the metrics; it panics if they are registered already.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	factory := promauto.With(registerer)
	return &Metrics{
		boots: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_boots_total",
			Help: "Boots of the sandboxes of SandboxRuntimes, by Ready or the reason of the failure.",
		}, []string{"reason"}),
		duration: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "sandbox_boot_duration_seconds",
			Help:    "Time to create a sandbox and prepare the agent in it.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 16),
		}),
		lost: factory.NewCounter(prometheus.CounterOpts{
			Name: "sandbox_lost_total",
			Help: "Sandboxes of SandboxRuntimes that went without the operator's doing.",
		}),
		postponed: factory.NewCounter(prometheus.CounterOpts{
			Name: "sandbox_cleanup_postponed_total",
			Help: "Deleted SandboxRuntimes that went before their sandboxes could be stopped.",
		}),
	}
}

func (m *Metrics) booted(b runner.Booted) {
	if m == nil {
		return
	}
	m.boots.WithLabelValues(sandboxv1alpha1.ReadyReason).Inc()
	m.duration.Observe((b.Create + b.Prepare).Seconds())
}

func (m *Metrics) bootFailed(err error) {
	if m == nil {
		return
	}
	reason, _, _ := bootFailure(err)
	m.boots.WithLabelValues(reason).Inc()
}

func (m *Metrics) postponedOne() {
	if m != nil {
		m.postponed.Inc()
	}
}

func (m *Metrics) lostOne() {
	if m != nil {
		m.lost.Inc()
	}
}
