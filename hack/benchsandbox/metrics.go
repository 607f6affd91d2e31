package main

import (
	"slices"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// targets are bounds that the numbers should keep.
var targets = figures.Targets{
	"sandbox.create_ratio_bwrap": figures.AtMost(1.5),
	"sandbox.exec_over_spawn_ms": figures.AtMost(2),
	"sandbox.idle_mb":            figures.AtMost(4),
	"sandbox.leaked":             figures.AtMost(0),
	"sandbox.qemu.leaked":        figures.AtMost(0),
}

// quantile sorts the durations; q is between 0 and 1.
func quantile(all []time.Duration, q float64) float64 {
	slices.Sort(all)
	return millis(all[min(int(q*float64(len(all))), len(all)-1)])
}

func median(all []time.Duration) float64 { return quantile(all, 0.5) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
