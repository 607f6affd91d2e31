package main

import (
	"math"
	"slices"
	"time"
)

// report is the last line of the demo. Times are in milliseconds, and medians
// where there are several.
type report struct {
	Demo string `json:"demo"`
	// Steps and Checks count what was done and found right.
	Steps  int `json:"steps"`
	Checks int `json:"checks"`
	// Functions, Calls and Runs count what the demo made.
	Functions int `json:"functions"`
	Calls     int `json:"calls"`
	Runs      int `json:"runs"`
	// StackMS is the start of all parts, ApplyReadyMS the time from kubectl apply
	// until both functions are Ready, sandboxes booted.
	StackMS      float64 `json:"stack_ms"`
	ApplyReadyMS float64 `json:"apply_ready_ms"`
	// The calls as the SDK client sees them.
	NodeCallMS   float64 `json:"node_call_ms"`
	PythonCallMS float64 `json:"python_call_ms"`
	HTTPCallMS   float64 `json:"http_call_ms"`
	// RunMS is a run on the bus with its own sandbox.
	NodeRunMS   float64 `json:"node_run_ms"`
	PythonRunMS float64 `json:"python_run_ms"`
	// EditReadyMS is from kubectl apply of new source until it answers.
	EditReadyMS float64 `json:"edit_ready_ms"`
}

func newReport() *report { return &report{Demo: "ok"} }

func milliseconds(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

// round keeps one decimal.
func round(ms float64) float64 { return math.Round(ms*10) / 10 }

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return round(sorted[middle])
	}
	return round((sorted[middle-1] + sorted[middle]) / 2)
}
