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

// metrics are numbers by name.
type metrics map[string]float64

// samplesOf collects durations of one thing.
type samplesOf []time.Duration

func (s samplesOf) percentile(p float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	index := int(math.Ceil(p*float64(len(sorted)))) - 1
	return milliseconds(sorted[max(0, index)])
}

func (s samplesOf) median() float64 { return s.percentile(0.5) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// add stores the median under the name and the 95th percentile beside it.
func (m metrics) add(name string, s samplesOf) {
	m[name+"_ms"] = s.median()
	m[name+"_p95_ms"] = s.percentile(0.95)
}

func (m metrics) print(w io.Writer) {
	fmt.Fprintln(w)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(w, "  %-30s %10.2f\n", name, m[name])
	}
}

// write replaces the file at once. A number that could not be measured is an
// error: JSON has no NaN.
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
