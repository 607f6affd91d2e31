package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// metrics are numbers by name. Latencies are in microseconds.
type metrics map[string]float64

// targets are bounds that the numbers should keep: at most, or at least when
// negative.
var targets = map[string]float64{"bus.p50_ratio": 4, "bus.calls_per_s": -20_000}

// latencies stores the percentiles and the throughput of a load.
func (m metrics) latencies(name string, l load) {
	m[name+".p50_us"] = float64(l.percentile(0.5)) / float64(time.Microsecond)
	m[name+".p99_us"] = float64(l.percentile(0.99)) / float64(time.Microsecond)
	m[name+".per_s"] = l.perSecond()
}

func (m metrics) print(w io.Writer) {
	_, _ = fmt.Fprintln(w)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		_, _ = fmt.Fprintf(w, "  %-34s %12.2f%s\n", name, m[name], verdict(name, m[name]))
	}
}

func verdict(name string, value float64) string {
	target, ok := targets[name]
	switch {
	case !ok:
		return ""
	case target > 0 && value <= target:
		return fmt.Sprintf("  target: at most %g, met", target)
	case target > 0:
		return fmt.Sprintf("  target: at most %g, MISSED", target)
	case value >= -target:
		return fmt.Sprintf("  target: at least %g, met", -target)
	}
	return fmt.Sprintf("  target: at least %g, MISSED", -target)
}

// write replaces the file at once.
func (m metrics) write(path string) error {
	rounded := map[string]float64{}
	for name, value := range m {
		rounded[name] = math.Round(value*100) / 100
	}
	text, err := json.MarshalIndent(rounded, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the numbers: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	staged := path + ".new"
	if err := os.WriteFile(staged, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(staged, path)
}
