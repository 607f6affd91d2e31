package runner

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbox-operator/sandbox-operator/guest/runner/link"
)

// Metrics counts how calls get to their sandboxes.
type Metrics struct{ byLink, byExecution prometheus.Counter }

// NewMetrics registers the metrics; links may be nil.
func NewMetrics(registerer prometheus.Registerer, links *link.Set) (*Metrics, error) {
	deliveries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbox_function_call_deliveries_total",
		Help: "Calls by how they got to their sandbox: over its link, or by an exec of the agent.",
	}, []string{"by"})
	m := &Metrics{byLink: deliveries.WithLabelValues("link"), byExecution: deliveries.WithLabelValues("exec")}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sandbox_function_links",
		Help: "Links to sandboxes that are open.",
	}, func() float64 {
		if links == nil {
			return 0
		}
		return float64(links.Open())
	})
	return m, errors.Join(registerer.Register(deliveries), registerer.Register(open))
}

// linked counts a call that went over a link; a nil Metrics counts nothing.
func (m *Metrics) linked() {
	if m != nil {
		m.byLink.Inc()
	}
}

// executed is linked for an execution.
func (m *Metrics) executed() {
	if m != nil {
		m.byExecution.Inc()
	}
}
