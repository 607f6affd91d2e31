package main

import (
	"context"
	"encoding/json"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
)

// way is one way to have the handler of a cell called.
type way struct {
	name results.Way
	// before makes ready what the next call needs, and is not measured; nil has
	// nothing to do.
	before func(ctx context.Context) error
	// call is made by several callers at once, which have numbers from 0.
	call func(ctx context.Context, caller int, payload json.RawMessage) ([]byte, error)
	// end undoes what before has left over; nil has nothing to do.
	end func() error
}

// waysOf lists the ways that take turns in a cell. What runs on the host has no bus,
// and a hand-off is a floor of latency: it has nothing to say of many callers.
func (b *bench) waysOf(cell results.Cell) ([]way, error) {
	w, err := workNamed(cell.Handler)
	if err != nil {
		return nil, err
	}
	ways := []way{
		b.originals[cell.Language].way(b, w, cell.Instances),
		b.published(cell, results.PerCall), b.published(cell, results.Shared),
	}
	if !w.triggers {
		ways = append(ways, b.host.bare(cell))
	}
	if cell.Handler == "empty" && cell.Callers == 1 {
		ways = append(ways, b.host.handOff(cell))
	}
	return ways, nil
}

// published calls a function of the operator.
func (b *bench) published(cell results.Cell, isolation results.Way) way {
	function := functionPrefix + functionName(cell.Handler, cell.Language, isolation)
	return way{name: isolation, call: func(ctx context.Context, caller int, payload json.RawMessage) ([]byte, error) {
		return b.callerOf(caller).bus.Call(ctx, bus.Call{FunctionID: function, Data: payload})
	}}
}
