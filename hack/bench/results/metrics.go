package results

import (
	"math"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// Languages are those of the handlers.
var Languages = []string{"node", "python"}

// Lone is the cell of one caller with an empty handler, Saturated that of more
// callers than anything can serve at once.
func Lone(language string) Cell {
	return Cell{Language: language, Handler: "empty", Callers: 1, Instances: 1}
}

// Paced is Lone at a pace at which a process can be ready for each call: what a warm
// call takes. Without pauses a caller mostly waits for the next process.
func Paced(language string) Cell {
	cell := Lone(language)
	cell.Paced = true
	return cell
}

// Saturated is Lone with SaturatedCallers.
func Saturated(language string) Cell {
	return Cell{Language: language, Handler: "empty", Callers: SaturatedCallers, Instances: 1}
}

// SaturatedCallers are several times the programs that one sandbox runs at once.
const SaturatedCallers = 16

// Targets are what the numbers should keep.
var Targets = figures.Targets{
	"call.node.ratio": figures.AtMost(0.1), "call.python.ratio": figures.AtMost(0.25),
	"call.node.handoff_ratio": figures.AtMost(5), "call.python.handoff_ratio": figures.AtMost(5),
	"throughput.node.ratio": figures.AtLeast(1.3), "throughput.python.ratio": figures.AtLeast(3),
	"throughput.shared.ratio": figures.AtLeast(8),
	"call.p99_over_p50":       figures.AtMost(4), "call.operator_cpu_ms": figures.AtMost(0.3),
	"call.cold_over_floor_ms": figures.AtMost(20), "plant_ms": figures.AtMost(60),
}

// Store adds the numbers of all cells and the ratios that targets speak of. What
// was not measured is left out.
func (s Set) Store(m figures.Metrics) {
	for cell, ways := range s {
		for way, slots := range ways {
			Summarize(slots).store(m, "cell."+cell.String()+"."+string(way)+".")
		}
	}
	shared := math.Inf(1)
	for _, language := range Languages {
		s.LatencyRatio(Paced(language), PerCall, Original).store(m, "call."+language+".ratio")
		s.LatencyRatio(Paced(language), PerCall, HandOff).store(m, "call."+language+".handoff_ratio")
		s.ThroughputRatio(Saturated(language), PerCall, Original).store(m, "throughput."+language+".ratio")
		ratio := s.ThroughputRatio(Saturated(language), Shared, Original)
		ratio.store(m, "throughput.shared."+language+".ratio")
		shared = min(shared, ratio.Value) // NaN, where it was not measured, wins
	}
	put(m, "throughput.shared.ratio", shared)
	put(m, "call.operator_cpu_ms", s.operatorCPU())
}

// operatorCPU is the operator's processor time by call of a saturated PerCall
// function, in milliseconds: what it does besides calls weighs least there.
func (s Set) operatorCPU() float64 {
	used, calls := time.Duration(0), 0
	for _, language := range Languages {
		for _, slot := range s[Saturated(language)][PerCall] {
			used += slot.Operator
			calls += slot.Calls
		}
	}
	return Milliseconds(used) / float64(calls)
}

func (r Ratio) store(m figures.Metrics, name string) {
	put(m, name, r.Value)
	put(m, name+"_low", r.Low)
	put(m, name+"_high", r.High)
}

func (y Summary) store(m figures.Metrics, prefix string) {
	for name, value := range map[string]float64{
		"p50_ms": y.P50, "p90_ms": y.P90, "p99_ms": y.P99, "max_ms": y.Max, "per_s": y.PerSecond,
		"samples": float64(y.Count), "operator_cpu_ms": y.OperatorCPU, "guest_cpu_ms": y.GuestCPU, "cold": y.Cold,
	} {
		put(m, prefix+name, value)
	}
}

// put leaves out what JSON cannot say.
func put(m figures.Metrics, name string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		m[name] = value
	}
}
