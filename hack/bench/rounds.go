package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
)

// measureMatrix measures all cells of one instance, then those of more.
func (b *bench) measureMatrix(ctx context.Context) error {
	if err := b.rest(ctx); err != nil {
		return err
	}
	if err := b.measureCells(ctx, b.plan.with(1)); err != nil {
		return err
	}
	if err := b.measureSteady(ctx); err != nil {
		return fmt.Errorf("at half of the rate: %w", err)
	}
	if err := b.measureInstances(ctx); err != nil {
		return fmt.Errorf("the memory of instances: %w", err)
	}
	many := b.plan.with(manyInstances)
	if len(many) == 0 {
		return nil
	}
	if err := b.scale(ctx, manyInstances); err != nil {
		return err
	}
	return b.measureCells(ctx, many)
}

// measureCells goes through the cells in rounds. In each all ways of a cell have
// their turns one after another, in an order of its own, so that whatever else the
// machine does meets all of them.
func (b *bench) measureCells(ctx context.Context, cells []plannedCell) error {
	rounds := 0
	for _, c := range cells {
		rounds = max(rounds, c.rounds)
	}
	for round := range rounds {
		cells := slices.DeleteFunc(slices.Clone(cells), func(c plannedCell) bool { return c.rounds <= round })
		b.random.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		for _, c := range cells {
			if err := b.measureCell(ctx, c.Cell); err != nil {
				return fmt.Errorf("%s, round %d: %w", c.Cell, round+1, err)
			}
		}
		fmt.Printf("  round %d of %d, %d cells with %d instances\n", round+1, rounds, len(cells), cells[0].Instances)
	}
	return nil
}

func (b *bench) measureCell(ctx context.Context, cell results.Cell) error {
	w, err := workNamed(cell.Handler)
	if err != nil {
		return err
	}
	ways, err := b.waysOf(cell)
	if err != nil {
		return err
	}
	b.random.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
	for _, way := range ways {
		slot, err := b.slot(ctx, way, w, cell.Callers, b.plan.of(cell))
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		b.set.Add(cell, way.name, slot)
	}
	return nil
}
