package runner

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbox-operator/sandbox-operator/guest/runner/link"
)

// How a call gets to its sandbox.
const (
	byLink      = "link"
	byExecution = "exec"
)

// Metrics counts how calls get to their sandboxes.
type Metrics struct{ deliveries *prometheus.CounterVec }

// NewMetrics registers the metrics; links may be nil.
func NewMetrics(registerer prometheus.Registerer, links *link.Set) (*Metrics, error) {
	m := &Metrics{deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbox_function_call_deliveries_total",
		Help: "Calls by how they got to their sandbox: over its link, or by an exec of the agent.",
	}, []string{"by"})}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sandbox_function_links",
		Help: "Links to sandboxes that are open.",
	}, func() float64 {
		if links == nil {
			return 0
		}
		return float64(links.Open())
	})
	return m, errors.Join(registerer.Register(m.deliveries), registerer.Register(open))
}

// delivered counts a call; a nil Metrics counts nothing.
func (m *Metrics) delivered(by string) {
	if m != nil {
		m.deliveries.WithLabelValues(by).Inc()
	}
}
