package orphans

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// NewDestroyedCounter registers the counter of destroyed orphans; it panics if
// it is registered already.
func NewDestroyedCounter(registerer prometheus.Registerer) prometheus.Counter {
	return promauto.With(registerer).NewCounter(prometheus.CounterOpts{
		Name: "sandbox_orphans_destroyed_total",
		Help: "Sandboxes of this operator that no object named and that were destroyed.",
	})
}
