// Package figures prints the numbers of a benchmark as a table and writes them as
// one flat JSON object, metric to number.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Metrics are numbers by name.
type Metrics map[string]float64

// Target is a bound that a number should keep. Missing it is said in the table
// and is no failure, since the machine may be busy.
type Target struct {
	Bound float64
	// AtLeast makes it a lower bound instead of an upper one.
	AtLeast bool
}

// Targets are targets by the name of the metric.
type Targets map[string]Target

// AtMost is an upper bound.
func AtMost(bound float64) Target { return Target{Bound: bound} }

// AtLeast is a lower bound.
func AtLeast(bound float64) Target { return Target{Bound: bound, AtLeast: true} }

func (t Target) verdict(value float64) string {
	side, met := "at most", value <= t.Bound
	if t.AtLeast {
		side, met = "at least", value >= t.Bound
	}
	if met {
		return fmt.Sprintf("  target: %s %g, met", side, t.Bound)
	}
	return fmt.Sprintf("  target: %s %g, MISSED", side, t.Bound)
}

// Print writes a line for each number, by name.
func (m Metrics) Print(w io.Writer, targets Targets) {
	_, _ = fmt.Fprintln(w)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		note := ""
		if target, ok := targets[name]; ok {
			note = target.verdict(m[name])
		}
		_, _ = fmt.Fprintf(w, "  %-36s %12.2f%s\n", name, m[name], note)
	}
}

// Write replaces the file at once. A number that could not be measured is an
// error: JSON has no NaN.
func (m Metrics) Write(path string) error {
	rounded := map[string]float64{}
	for name, value := range m {
		rounded[name] = math.Round(value*1000) / 1000
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
