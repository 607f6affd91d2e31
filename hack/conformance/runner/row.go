package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/gomega"
)

const (
	// rowPatience bounds one row; most take less than a second.
	rowPatience = 100 * time.Second
	// cleanPatience bounds the end of what one row made.
	cleanPatience = 60 * time.Second
	// settlePatience bounds what goes on after a call was answered.
	settlePatience = 20 * time.Second
	settlePoll     = 25 * time.Millisecond
)

// m is a JSON object.
type m = map[string]any

// row is a test that runs: assertions, the world and what ends with the row.
type row struct {
	Gomega
	*world
	ctx context.Context
	id  string

	mutex    sync.Mutex
	cleanups []func(*row)
	workers  int
	scripted bool
}

// failure is how an assertion leaves its row.
type failure struct{ text string }

func newRow(ctx context.Context, w *world, id string) *row {
	t := &row{world: w, ctx: ctx, id: id}
	expectations := NewGomega(func(text string, _ ...int) { panic(failure{text}) })
	expectations.SetDefaultEventuallyTimeout(settlePatience)
	expectations.SetDefaultEventuallyPollingInterval(settlePoll)
	t.Gomega = expectations
	return t
}

// attempt runs a test and returns why it failed, empty if it did not.
func (t *row) attempt(test func(*row)) (why string) {
	defer func() {
		switch trouble := recover().(type) {
		case nil:
		case failure:
			why = trouble.text + at(debug.Stack())
		default:
			why = fmt.Sprintf("panic: %v\n%s", trouble, debug.Stack())
		}
	}()
	test(t)
	return ""
}

// clean ends what the row made, the latest first.
func (t *row) clean() string {
	slices.Reverse(t.cleanups)
	why := ""
	for _, cleanup := range t.cleanups {
		if text := t.attempt(cleanup); text != "" {
			why += "\nclean-up: " + text
		}
	}
	return why
}

// after adds what is done when the row has ended.
func (t *row) after(cleanup func(*row)) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.cleanups = append(t.cleanups, cleanup)
}

// together runs functions at the same time and fails as the first that failed.
func (t *row) together(acts ...func()) {
	whys := make([]string, len(acts))
	var group sync.WaitGroup
	for i, act := range acts {
		group.Go(func() { whys[i] = t.attempt(func(*row) { act() }) })
	}
	group.Wait()
	for _, why := range whys {
		if why != "" {
			panic(failure{why})
		}
	}
}

// background starts a function; the returned one waits for its end and fails as
// it did.
func (t *row) background(act func()) (wait func()) {
	ended := make(chan string, 1)
	go func() { ended <- t.attempt(func(*row) { act() }) }()
	return func() {
		if why := <-ended; why != "" {
			panic(failure{why})
		}
	}
}

// within bounds what a part of a row may wait for.
func (t *row) within(limit time.Duration, act func(*row)) {
	bounded, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	part := newRow(bounded, t.world, t.id)
	act(part)
	t.cleanups = append(t.cleanups, part.cleanups...)
}

// must is the value of a call that may not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(failure{err.Error()})
	}
	return value
}

// same compares secrets, which stay out of the output.
func (t *row) same(got, want, what string) {
	if got != want {
		panic(failure{"it does not hold that " + what})
	}
}

// ok expects no error.
func (t *row) ok(err error) { must(0, err) }

// leftNothing waits until no sandbox and no runtime is there any more.
func (t *row) leftNothing() {
	t.Eventually(t.runtimes, cleanPatience).Should(BeEmpty(), "runtimes that are left")
	t.Eventually(t.boxIDs, cleanPatience).Should(BeEmpty(), "sandboxes that are left")
}

// runRow runs one row to its end and says how it went.
func runRow(ctx context.Context, w *world, c entry) outcome {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, rowPatience)
	t := newRow(bounded, w, c.id())
	why := t.attempt(c.test)
	cancel()
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
	defer cancel()
	t.ctx = cleaning
	why += t.clean()
	if c.phase >= alone {
		why += t.attempt((*row).leftNothing)
	}
	return outcome{entry: c, why: why, took: time.Since(began), scripted: t.scripted}
}
