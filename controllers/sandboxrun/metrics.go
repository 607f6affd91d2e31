package sandboxrun

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics counts runs. Its labels are the reasons of the API and the names of
// the stages, and do not grow with the number of runs.
type Metrics struct {
	finished *prometheus.CounterVec
	stages   *prometheus.HistogramVec
}

// NewMetrics registers the metrics; it panics if they are registered already.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	factory := promauto.With(registerer)
	return &Metrics{
		finished: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_runs_finished_total",
			Help: "Attempts of SandboxRuns that have ended, by the reason of the condition.",
		}, []string{"reason"}),
		stages: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sandbox_run_stage_duration_seconds",
			Help:    "Lengths of the stages of SandboxRuns: queue, boot, plant, exec and cleanup.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 18),
		}, []string{"stage"}),
	}
}

// observe counts an attempt that has ended. A nil Metrics counts nothing.
func (m *Metrics) observe(res result) {
	if m == nil {
		return
	}
	reason, _ := verdict(res)
	m.finished.WithLabelValues(reason).Inc()
	for stage, milliseconds := range map[string]int64{
		"queue":   res.timings.QueueMilliseconds,
		"boot":    res.timings.BootMilliseconds,
		"plant":   res.timings.PlantMilliseconds,
		"exec":    res.timings.ExecMilliseconds,
		"cleanup": res.timings.CleanupMilliseconds,
	} {
		m.stages.WithLabelValues(stage).Observe(float64(milliseconds) / 1000)
	}
}
