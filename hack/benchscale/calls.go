package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

const (
	callPatience   = 10 * time.Second
	servedPatience = 10 * time.Minute
	// editPatience bounds the wait for the new code of one function.
	editPatience = time.Minute
	// bystanders call the other functions while one is edited, each with a pause
	// of bystanderPause between two calls.
	bystanders     = 2
	bystanderPause = 10 * time.Millisecond
)

// errOtherCode says that a function answers with another edition of its source.
var errOtherCode = errors.New("the function has other code than expected")

// call checks that a function answers with the given edition of its source.
func (w *world) call(ctx context.Context, f function, edition int) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	answer, err := w.bus.Call(ctx, bus.Call{FunctionID: f.id()})
	if err != nil {
		return err
	}
	var source string
	if err := json.Unmarshal(answer, &source); err != nil {
		return err
	}
	if source != f.source(edition) {
		return errOtherCode
	}
	return nil
}

// awaitServed calls all functions until each has answered once. editions are
// those of functions that were edited.
func (w *world) awaitServed(ctx context.Context, functions []function, editions map[int]int) error {
	ctx, cancel := context.WithTimeout(ctx, servedPatience)
	defer cancel()
	for left := functions; ; {
		var err error
		left, err = w.unserved(ctx, left, editions)
		if len(left) == 0 {
			return nil
		}
		if ended := pause(ctx, 100*time.Millisecond); ended != nil {
			return fmt.Errorf("%d of %d functions are not served: %w", len(left), len(functions), errors.Join(err, ended))
		}
	}
}

// unserved calls each function once and returns those that did not answer, with
// one of the reasons.
func (w *world) unserved(ctx context.Context, functions []function, editions map[int]int) (left []function, reason error) {
	var mu sync.Mutex
	var calling errgroup.Group
	calling.SetLimit(atOnce)
	for _, f := range functions {
		calling.Go(func() error {
			if err := w.call(ctx, f, editions[f.number]); err != nil {
				mu.Lock()
				defer mu.Unlock()
				left, reason = append(left, f), err
			}
			return nil
		})
	}
	_ = calling.Wait()
	return left, reason
}

// editing is what a series of edits took.
type editing struct {
	// edits are the times from the patch of a function to an answer of its new code.
	edits samplesOf
	// others are those of calls of the other functions meanwhile, failed how many of
	// them had no answer.
	others samplesOf
	failed int
	// editions are the last ones, by the number of the function.
	editions map[int]int
}

// editSome edits functions one after another while the others are called.
func (w *world) editSome(ctx context.Context, functions []function, count int) (editing, error) {
	count = min(count, len(functions)/2)
	edited, others := functions[:count], functions[count:]
	callers := w.startBystanders(ctx, others)
	e := editing{editions: map[int]int{}}
	var err error
	for _, f := range edited {
		var took time.Duration
		if took, err = w.timedEdit(ctx, f); err != nil {
			break
		}
		e.edits, e.editions[f.number] = append(e.edits, took), 1
	}
	e.others, e.failed = callers.stop()
	return e, err
}

func (w *world) timedEdit(ctx context.Context, f function) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, editPatience)
	defer cancel()
	began := time.Now()
	if err := w.edit(ctx, f, 1); err != nil {
		return 0, err
	}
	for {
		err := w.call(ctx, f, 1)
		if err == nil {
			return time.Since(began), nil
		}
		if !errors.Is(err, errOtherCode) || ctx.Err() != nil {
			return 0, fmt.Errorf("waiting for the new code of %s: %w", f.id(), err)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// callers call functions in turn until they are stopped.
type callers struct {
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu     sync.Mutex
	next   int
	times  samplesOf
	failed int
}

func (w *world) startBystanders(ctx context.Context, functions []function) *callers {
	ctx, cancel := context.WithCancel(ctx)
	c := &callers{cancel: cancel}
	for range bystanders {
		c.group.Go(func() {
			for pause(ctx, bystanderPause) == nil {
				// A call that has begun is finished, so that its end is no failure.
				c.once(context.WithoutCancel(ctx), w, functions)
			}
		})
	}
	return c
}

func (c *callers) once(ctx context.Context, w *world, functions []function) {
	c.mu.Lock()
	f := functions[c.next%len(functions)]
	c.next++
	c.mu.Unlock()
	began := time.Now()
	err := w.call(ctx, f, 0)
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed++
		return
	}
	c.times = append(c.times, took)
}

func (c *callers) stop() (times samplesOf, failed int) {
	c.cancel()
	c.group.Wait()
	return c.times, c.failed
}
