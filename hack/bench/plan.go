package main

import (
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
)

// plan is how much is measured.
type plan struct {
	// cells say in how many rounds each takes part.
	cells []plannedCell
	timing
	// steady is how long calls come at half of the rate that can be kept up.
	steady time.Duration
	// cold are the calls of stopped runtimes, by language; floors the fresh sandboxes
	// that they are set against.
	cold, floors int
	// samples are those of what is measured one at a time.
	samples int
}

type plannedCell struct {
	results.Cell
	rounds int
}

// manyInstances is the larger number of instances.
const manyInstances = 4

var allCallers = []int{1, 4, results.SaturatedCallers, 64}

// quickPlan has the cells that the ratios are taken from.
func quickPlan() plan {
	p := plan{timing: timing{warmUp: 200 * time.Millisecond, window: 400 * time.Millisecond}, steady: 3 * time.Second, cold: 1, floors: 3, samples: 8}
	for _, l := range results.Languages {
		p.add(2, results.Paced(l), results.Saturated(l))
	}
	return p
}

// defaultPlan takes these more often, and has every handler, number of callers and
// number of instances at least once.
func defaultPlan() plan {
	p := plan{timing: timing{warmUp: 250 * time.Millisecond, window: 500 * time.Millisecond}, steady: 8 * time.Second, cold: 4, floors: 10, samples: 30}
	for _, l := range results.Languages {
		p.add(6, results.Paced(l))
		p.add(4, results.Lone(l), results.Saturated(l))
		p.add(2, results.Cell{Language: l, Handler: "empty", Callers: 4, Instances: 1})
		p.add(1, results.Cell{Language: l, Handler: "empty", Callers: 64, Instances: 1})
		for _, handler := range []string{"cpu10", "large", "trigger"} {
			p.add(2, results.Cell{Language: l, Handler: handler, Callers: 4, Instances: 1})
		}
		p.add(2, results.Cell{Language: l, Handler: "empty", Callers: results.SaturatedCallers, Instances: manyInstances})
	}
	return p
}

// fullPlan has all combinations.
func fullPlan() plan {
	p := plan{timing: timing{warmUp: 500 * time.Millisecond, window: time.Second}, steady: 20 * time.Second, cold: 4, floors: 20, samples: 50}
	for _, l := range results.Languages {
		p.add(8, results.Paced(l))
		for _, w := range works {
			for _, callers := range allCallers {
				for _, instances := range []int{1, manyInstances} {
					cell := results.Cell{Language: l, Handler: w.name, Callers: callers, Instances: instances}
					rounds := 3
					if cell == results.Lone(l) || cell == results.Saturated(l) {
						rounds = 8
					}
					p.add(rounds, cell)
				}
			}
		}
	}
	return p
}

func (p *plan) add(rounds int, cells ...results.Cell) {
	for _, cell := range cells {
		p.cells = append(p.cells, plannedCell{cell, rounds})
	}
}

// with are the cells with a number of instances.
func (p plan) with(instances int) []plannedCell {
	var cells []plannedCell
	for _, c := range p.cells {
		if c.Instances == instances {
			cells = append(cells, c)
		}
	}
	return cells
}

// most is the largest number of instances.
func (p plan) most() int {
	most := 0
	for _, c := range p.cells {
		most = max(most, c.Instances)
	}
	return most
}
