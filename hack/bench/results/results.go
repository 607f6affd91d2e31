// Package results holds what the benchmark of calls measured, and makes of it
// percentiles, ratios with their intervals, metrics, a table and a plot.
package results

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Way is one of the ways to have a handler called.
type Way string

// The ways that are compared.
const (
	// Bare starts an interpreter on the host, which loads the handler and calls it.
	Bare Way = "bare"
	// HandOff gives the call to a process on the host that has the handler loaded and
	// waits; each call still has a process of its own.
	HandOff Way = "handoff"
	// Original is sandbox::exec of an interpreter that loads the runner, the bus SDK
	// and the handler, as many at once as the sandbox takes.
	Original Way = "original"
	// PerCall and Shared are published functions of that isolation.
	PerCall Way = "percall"
	Shared  Way = "shared"
)

// Ways are all ways, in the order of tables.
var Ways = []Way{HandOff, Bare, Original, PerCall, Shared}

// Cell is what all ways do in turn.
type Cell struct {
	Language, Handler string
	// Callers call at the same time, each again once it is answered; Instances are
	// the sandboxes that answer.
	Callers, Instances int
	// Paced callers wait between their calls until a process has got ready again.
	Paced bool
}

// String is the part of a metric's name that says the cell: node.empty.c16.i1, with
// .paced at the end if it is.
func (c Cell) String() string {
	if c.Paced {
		c.Paced = false
		return c.String() + ".paced"
	}
	return fmt.Sprintf("%s.%s.c%d.i%d", c.Language, c.Handler, c.Callers, c.Instances)
}

func compareCells(a, b Cell) int {
	return cmp.Or(cmp.Compare(a.Language, b.Language), cmp.Compare(a.Instances, b.Instances),
		cmp.Compare(a.Handler, b.Handler), cmp.Compare(a.Callers, b.Callers), cmp.Compare(a.String(), b.String()))
}

// Slot is the turn of one way in one round.
type Slot struct {
	// Latencies are those of the calls that began within the window.
	Latencies []time.Duration
	// Done are the answers within the window, which is Window long.
	Done   int
	Window time.Duration
	// Calls are all of the slot, also those before and after the window; the
	// processor times are those of all of them.
	Calls            int
	Operator, Guests time.Duration
	// Cold are calls of published functions whose interpreter was started for them.
	Cold int
	// Failed are calls without the right answer; they are no Latencies and not Done.
	Failed int
}

// Set is what was measured, by cell and way, a slot for each round.
type Set map[Cell]map[Way][]Slot

// Add appends the next round's slot.
func (s Set) Add(c Cell, w Way, slot Slot) {
	if s[c] == nil {
		s[c] = map[Way][]Slot{}
	}
	s[c][w] = append(s[c][w], slot)
}

// Cells lists the cells in the order of tables.
func (s Set) Cells() []Cell { return slices.SortedFunc(maps.Keys(s), compareCells) }

// Failed counts the calls without the right answer.
func (s Set) Failed() (failed, calls int) {
	for _, ways := range s {
		for _, slots := range ways {
			for _, slot := range slots {
				failed += slot.Failed
				calls += slot.Calls
			}
		}
	}
	return failed, calls
}

// Summary is what a way did in a cell, over all rounds; times are in
// milliseconds, and what could not be measured is NaN.
type Summary struct {
	// Count is how many latencies the percentiles are of.
	Count              int
	P50, P90, P99, Max float64
	PerSecond          float64
	// OperatorCPU and GuestCPU, which is that of the daemon and its guests, are by
	// call.
	OperatorCPU, GuestCPU float64
	// Cold is the share of calls whose interpreter was started for them, of published
	// functions.
	Cold float64
}

// Summarize sums up the slots of a way.
func Summarize(slots []Slot) Summary {
	var latencies []time.Duration
	var operator, guests time.Duration
	calls, cold := 0, 0
	for _, slot := range slots {
		latencies = append(latencies, slot.Latencies...)
		operator += slot.Operator
		guests += slot.Guests
		calls += slot.Calls
		cold += slot.Cold
	}
	return Summary{
		Count: len(latencies),
		P50:   Percentile(latencies, 0.5), P90: Percentile(latencies, 0.9),
		P99: Percentile(latencies, 0.99), Max: Percentile(latencies, 1),
		PerSecond:   perSecond(slots),
		OperatorCPU: Milliseconds(operator) / float64(calls), GuestCPU: Milliseconds(guests) / float64(calls),
		Cold: float64(cold) / float64(calls),
	}
}

func perSecond(slots []Slot) float64 {
	done, window := 0, time.Duration(0)
	for _, slot := range slots {
		done += slot.Done
		window += slot.Window
	}
	return float64(done) / window.Seconds()
}
