package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// phase says which other rows may run at the same time as a row.
type phase int

const (
	// together is for rows that do not disturb each other.
	together phase = iota
	// slow is for those among them that wait long; they start first.
	slow
	// alone is for rows that count all sandboxes or calls, or script the daemon.
	alone
	// last is for rows that restart parts of the stack.
	last
)

// outcome is how a row went.
type outcome struct {
	entry
	// why it failed; empty if it did not.
	why      string
	took     time.Duration
	scripted bool
}

// schedule runs rows phase by phase and reports each when it has ended.
func schedule(ctx context.Context, w *world, rows []entry, width int, r *report) {
	inPhase := func(p phase) []entry {
		return slices.DeleteFunc(slices.Clone(rows), func(e entry) bool { return e.phase != p })
	}
	width = max(1, width)
	var waiting sync.WaitGroup
	var telling sync.Mutex
	runAll := func(rows []entry, width int) {
		places := make(chan struct{}, max(1, width))
		for _, e := range rows {
			places <- struct{}{}
			waiting.Go(func() {
				defer func() { <-places }()
				o := runRow(ctx, w, e)
				telling.Lock()
				defer telling.Unlock()
				r.row(o)
			})
		}
	}
	slowRows := inPhase(slow)
	runAll(slowRows, len(slowRows))
	runAll(inPhase(together), width)
	waiting.Wait()
	r.end("the rows so far", "leave nothing", afterAll(ctx, w))
	for _, p := range []phase{alone, last} {
		runAll(inPhase(p), 1)
		waiting.Wait()
	}
}

// afterAll looks for what rows left that ran at the same time.
func afterAll(ctx context.Context, w *world) error {
	if why := newRow(ctx, w, "end").attempt((*row).leftNothing); why != "" {
		return errors.New(why)
	}
	return nil
}

// selected are the rows whose name begins with one of some words.
func selected(only string) []entry {
	if only == "" {
		return catalog
	}
	return slices.DeleteFunc(slices.Clone(catalog), func(e entry) bool {
		return !slices.ContainsFunc(strings.Split(only, ","), func(word string) bool { return strings.HasPrefix(e.name, word) })
	})
}
