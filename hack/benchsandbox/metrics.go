package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// metrics are numbers by name; the name's end is the unit.
type metrics map[string]float64

// targets are what a metric must not exceed. Missing one is said in the table; it
// is no failure, as the machine may be busy.
var targets = map[string]float64{
	"sandbox.create_ratio_bwrap": 1.5, "sandbox.exec_over_spawn_ms": 2, "sandbox.idle_mb": 4, "sandbox.leaked": 0,
}

func (m metrics) print(out io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		note := ""
		if target, has := targets[name]; has {
			note = fmt.Sprintf("  target ≤ %g: met", target)
			if m[name] > target {
				note = fmt.Sprintf("  target ≤ %g: MISSED", target)
			}
		}
		_, _ = fmt.Fprintf(out, "%-36s %10.2f%s\n", name, m[name], note)
	}
}

func (m metrics) write(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	rounded := metrics{}
	for name, value := range m {
		rounded[name] = float64(int64(value*1000+0.5)) / 1000
	}
	text, err := json.MarshalIndent(rounded, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// quantile sorts the durations; q is between 0 and 1.
func quantile(all []time.Duration, q float64) float64 {
	slices.Sort(all)
	return millis(all[min(int(q*float64(len(all))), len(all)-1)])
}

func median(all []time.Duration) float64 { return quantile(all, 0.5) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
