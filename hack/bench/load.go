package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
)

// callPatience bounds a call; queueing of the caller's own is in it.
const callPatience = 2 * time.Minute

// timing says how long a slot is.
type timing struct {
	// warmUp passes before the window: processes get ready at the rate at which calls
	// come.
	warmUp, window time.Duration
	// pause is the time between a caller's calls.
	pause time.Duration
}

const (
	// pacedPause is time enough for a process to get ready, of either language.
	pacedPause = 300 * time.Millisecond
	// pacedWindow holds some calls of that pace.
	pacedWindow = 2 * time.Second
)

func (t timing) of(cell results.Cell) timing {
	if cell.Paced {
		t.pause, t.window = pacedPause, pacedWindow
	}
	return t
}

// leastDone are the answers that a window waits for: with ways that take long, or a
// machine that has other work, it is longer than planned.
const leastDone = 4

// slot lets callers call, each again once it is answered, and measures the window.
// Calls that began are waited for.
func (b *bench) slot(ctx context.Context, w way, wk work, callers int, t timing) (results.Slot, error) {
	coldBefore, err := b.coldStarts(ctx)
	if err != nil {
		return results.Slot{}, err
	}
	before, err := b.readUsage()
	if err != nil {
		return results.Slot{}, err
	}
	began := time.Now()
	l := &load{
		bench: b, way: w, work: wk, ramp: min(callers, leastDone), window: t.window, pause: t.pause,
		opens: began.Add(t.warmUp), closes: began.Add(t.warmUp + t.window),
	}
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() { l.repeat(ctx, caller) })
	}
	group.Wait()
	if w.end != nil {
		err = w.end()
	}
	if err := errors.Join(ctx.Err(), err); err != nil {
		return results.Slot{}, err
	}
	after, err := b.settledUsage(ctx)
	if err != nil {
		return results.Slot{}, err
	}
	cold, err := b.coldStarts(ctx)
	if err != nil {
		return results.Slot{}, err
	}
	slot := l.slot
	slot.Cold = cold - coldBefore
	slot.Window = l.closes.Sub(l.opens)
	used := after.less(before)
	slot.Operator, slot.Guests = used.operator, used.guests
	if w.name == results.Bare || w.name == results.HandOff {
		slot.Guests = used.children
	}
	return slot, nil
}

// load is what a slot's callers share.
type load struct {
	bench  *bench
	way    way
	work   work
	window time.Duration
	pause  time.Duration

	mu sync.Mutex
	// ramp are answers that are wanted before the window opens: the first ones come
	// from callers that all began at once.
	ramp int
	// opens moves until the ramp has passed, closes while there are fewer than leastDone
	// answers.
	opens, closes time.Time
	slot          results.Slot
}

// isOver says whether no further call begins.
func (l *load) isOver(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.After(l.closes) && l.slot.Done+l.slot.Failed >= leastDone
}

// repeat is one caller.
func (l *load) repeat(ctx context.Context, caller int) {
	for ctx.Err() == nil {
		if before := l.way.before; before != nil {
			if err := before(ctx); err != nil {
				l.failed(err)
				return
			}
		}
		if l.pause > 0 && pause(ctx, l.pause) != nil {
			return
		}
		began := time.Now()
		if l.isOver(began) {
			return
		}
		err := l.once(ctx, caller)
		l.add(began, time.Now(), err)
	}
}

// numbers make every payload another one.
var numbers atomic.Int64

func (l *load) once(ctx context.Context, caller int) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	n := int(numbers.Add(1))
	answer, err := l.way.call(ctx, caller, l.work.payload(n))
	if err != nil {
		return err
	}
	return l.work.check(n, answer)
}

func (l *load) add(began, ended time.Time, err error) {
	if err != nil {
		l.failed(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slot.Calls++
	if l.ramp > 0 {
		if l.ramp--; ended.After(l.opens) {
			l.opens, l.closes = ended, ended.Add(l.window)
		}
		return
	}
	if !began.Before(l.opens) {
		l.slot.Latencies = append(l.slot.Latencies, ended.Sub(began))
	}
	switch {
	case ended.Before(l.opens):
	case ended.Before(l.closes):
		l.slot.Done++
	case l.slot.Done < leastDone:
		l.slot.Done++
		l.closes = ended
	}
}

// failed counts a call without the right answer; the first of all is told.
func (l *load) failed(err error) {
	l.mu.Lock()
	l.slot.Calls++
	l.slot.Failed++
	l.mu.Unlock()
	l.bench.wrong(string(l.way.name)+", "+l.work.name, err)
}
