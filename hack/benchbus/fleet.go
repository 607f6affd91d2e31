package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// measureFleet measures the memory of a fresh engine with many functions on
// many workers, and whether a call costs more there.
func measureFleet(ctx context.Context, s sizes, m figures.Metrics) (err error) {
	p, err := startParts(ctx)
	if err != nil {
		return err
	}
	defer closing(&err, p.end)
	idle, err := p.engine.usage()
	if err != nil {
		return err
	}
	fleet := &parts{}
	defer closing(&err, fleet.end)
	if err := fleet.join(ctx, p.engine.greeting.Bus, s); err != nil {
		return err
	}
	if err := p.caller.awaitFleet(ctx, s.functions); err != nil {
		return err
	}
	full, err := p.engine.usage()
	if err != nil {
		return err
	}
	m["bus.rss_mb_idle"] = idle.RSSMB
	m["bus.rss_mb_10k"] = full.RSSMB
	m["bus.goroutines_10k"] = float64(full.Goroutines)
	l, err := drive(ctx, 1, s.roundCalls*8, p.caller.call)
	if err != nil {
		return err
	}
	latencies(m, "bus.1_10k", l)
	return measureAllocations(ctx, p, s, m, "_10k")
}

// join connects the workers, each with its share of the functions.
func (p *parts) join(ctx context.Context, url string, s sizes) error {
	share := s.functions / s.workers
	for w := range s.workers {
		end, _, err := connect(ctx, url, fmt.Sprintf("fleet-%d", w), func(c *bus.Client) error {
			return registerShare(c, w, share)
		})
		if err != nil {
			return fmt.Errorf("connecting worker %d: %w", w, err)
		}
		p.ends = append(p.ends, end)
	}
	return nil
}

// registerShare registers functions with a description and small schemas, as
// typed functions have.
func registerShare(c *bus.Client, worker, share int) error {
	schema := json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"},"quantity":{"type":"integer"}},"required":["order"]}`)
	var errs error
	for f := range share {
		errs = errors.Join(errs, c.RegisterFunction(bus.Function{
			ID: fmt.Sprintf("fleet%d::function%d", worker, f), Description: "One of very many functions",
			RequestFormat: schema, ResponseFormat: schema,
			Handler: func(context.Context, bus.Invocation) (json.RawMessage, error) { return nil, nil },
		}))
	}
	return errs
}

// awaitFleet returns once the engine has all functions. It asks for workers,
// not for functions: an answer with all of them would fill the memory measured.
func (c *caller) awaitFleet(ctx context.Context, functions int) error {
	for {
		got, err := c.client.Call(ctx, bus.Call{FunctionID: "engine::workers::list", Data: json.RawMessage(`{}`)})
		if err != nil {
			return err
		}
		var listed struct {
			Workers []struct {
				FunctionCount int `json:"function_count"`
			} `json:"workers"`
		}
		if err := json.Unmarshal(got, &listed); err != nil {
			return err
		}
		count := 0
		for _, w := range listed.Workers {
			count += w.FunctionCount
		}
		if count >= functions {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}
