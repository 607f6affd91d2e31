package results

import (
	"fmt"
	"math"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// titles are what tables and plots call the ways.
var titles = map[Way]string{
	HandOff: "hand-off to a waiting process", Bare: "bare interpreter", Original: "original: sandbox::exec",
	PerCall: "PerCall", Shared: "Shared",
}

// Table is a table in Markdown for each language.
func (s Set) Table() string {
	var text strings.Builder
	for _, language := range Languages {
		fmt.Fprintf(&text, "### %s\n\n", strings.ToUpper(language[:1])+language[1:])
		text.WriteString("| Handler, callers, instances | Way | Calls | p50 ms | p90 | p99 | max | calls/s " +
			"| CPU ms a call: operator | daemon and guests | Cold starts | p50 by the original's | calls/s by the original's |\n" +
			"|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		for _, cell := range s.Cells() {
			if cell.Language == language {
				s.rows(&text, cell)
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

func (s Set) rows(text *strings.Builder, cell Cell) {
	pauses := ""
	if cell.Paced {
		pauses = " with pauses"
	}
	name := fmt.Sprintf("%s, %d%s, %d", cell.Handler, cell.Callers, pauses, cell.Instances)
	for _, way := range Ways {
		slots, measured := s[cell][way]
		if !measured {
			continue
		}
		y := Summarize(slots)
		latency, throughput := Ratio{Value: math.NaN()}, Ratio{Value: math.NaN()}
		if way != Original {
			latency, throughput = s.LatencyRatio(cell, way, Original), s.ThroughputRatio(cell, way, Original)
		}
		perSecond := figure(y.PerSecond)
		if way == HandOff || cell.Paced { // Between its calls it makes the next process ready, or waits.
			perSecond, throughput = "", Ratio{Value: math.NaN()}
		}
		operator, cold := figure(y.OperatorCPU), fmt.Sprintf("%.0f %%", 100*y.Cold)
		if way != PerCall && way != Shared {
			operator, cold = "", "" // The operator has no part in the call.
		}
		fmt.Fprintf(text, "| %s | %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, titles[way], y.Count,
			figure(y.P50), figure(y.P90), figure(y.P99), figure(y.Max), perSecond,
			operator, figure(y.GuestCPU), cold, latency, throughput)
		name = ""
	}
}

// String is the ratio with its interval.
func (r Ratio) String() string {
	if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) {
		return ""
	}
	return fmt.Sprintf("%s (%s–%s)", figure(r.Value), figure(r.Low), figure(r.High))
}

// figure has three digits that count; nothing stands for what was not measured.
func figure(value float64) string {
	switch size := math.Abs(value); {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return ""
	case value == math.Trunc(value) && size < 1000:
		return fmt.Sprintf("%.0f", value)
	case size >= 100:
		return fmt.Sprintf("%.0f", value)
	case size >= 10:
		return fmt.Sprintf("%.1f", value)
	case size >= 1:
		return fmt.Sprintf("%.2f", value)
	default:
		return fmt.Sprintf("%.3f", value)
	}
}

// verdicts are the metrics with a target, in the order of the page.
var verdicts = []struct{ metric, meaning string }{
	{"call.node.ratio", "PerCall p50 by the original's, Node, empty handler, one caller with pauses"},
	{"call.python.ratio", "the same in Python"},
	{"call.node.handoff_ratio", "PerCall p50 by that of the hand-off on the host, Node"},
	{"call.python.handoff_ratio", "the same in Python"},
	{"throughput.node.ratio", "PerCall calls/s by the original's, Node, 16 callers, one instance"},
	{"throughput.python.ratio", "the same in Python"},
	{"throughput.shared.ratio", "Shared calls/s by the original's, the smaller one of both languages"},
	{"call.p99_over_p50", "PerCall at half of the rate that it can keep up, the larger one of both languages"},
	{"call.operator_cpu_ms", "processor time of the operator by PerCall call, 16 callers"},
	{"call.cold_over_floor_ms", "call of a stopped runtime less create, plant and interpreter, the larger one of both languages"},
	{"plant_ms", "planting the agent into a fresh instance"},
}

// Verdicts is a table in Markdown of the numbers that have a target.
func Verdicts(m figures.Metrics) string {
	var text strings.Builder
	text.WriteString("| Metric | Meaning | Target | Measured | 95 % interval |\n|---|---|---|---|---|\n")
	for _, v := range verdicts {
		value, measured := m[v.metric]
		if !measured {
			continue
		}
		target, interval := Targets[v.metric], ""
		side, met := "≤", value <= target.Bound
		if target.AtLeast {
			side, met = "≥", value >= target.Bound
		}
		verdict := figure(value)
		if !met {
			verdict += ", missed"
		}
		if low, has := m[v.metric+"_low"]; has {
			interval = figure(low) + "–" + figure(m[v.metric+"_high"])
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s %g | %s | %s |\n", v.metric, v.meaning, side, target.Bound, verdict, interval)
	}
	return text.String()
}

// Parts are tables in Markdown of what lies behind the verdicts: calls at half of
// the rate, cold calls, and the memory of instances.
func Parts(m figures.Metrics) string {
	var text strings.Builder
	rows := func(title, head string, keys []string, row func(key string) string) {
		fmt.Fprintf(&text, "%s\n\n| | %s |\n|---|%s\n", title, head, strings.Repeat("---|", strings.Count(head, "|")+1))
		for _, key := range keys {
			text.WriteString(row(key))
		}
		text.WriteString("\n")
	}
	cells := func(prefix string, names ...string) string {
		row := ""
		for _, name := range names {
			value, measured := m[prefix+name]
			if !measured {
				value = math.NaN()
			}
			row += " " + figure(value) + " |"
		}
		return row
	}
	rows("PerCall calls that arrive by chance at half of the rate that one instance keeps up:", "calls/s | calls | p50 ms | p99 ms",
		Languages, func(l string) string {
			return "| " + l + " |" + cells("steady."+l+".", "per_s", "samples", "p50_ms", "p99_ms") + "\n"
		})
	rows("A call of a stopped runtime, and fresh sandboxes without the operator, ms:",
		"call | create | plant the agent | interpreter | plant and check the source", Languages, func(l string) string {
			return "| " + l + " |" + cells("cold."+l+".", "call_ms", "create_ms", "plant_ms", "interpreter_ms", "plant_source_ms") + "\n"
		})
	var instances []string
	for _, l := range Languages {
		for _, way := range []Way{Original, PerCall, Shared} {
			instances = append(instances, l+"."+string(way))
		}
	}
	rows("Memory of one instance, MiB:", "at rest | with 16 callers", instances, func(key string) string {
		return "| " + strings.Replace(key, ".", ", ", 1) + " |" + cells("instance."+key+".", "rest_mb", "loaded_mb") + "\n"
	})
	return text.String()
}
