package main

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/chaos/plan"
)

// storm starts a world, lets the plan loose on it, judges it and ends it.
func storm(ctx context.Context, p plan.Plan, out io.Writer) (*report, error) {
	r := &report{out: out}
	before := readHost()
	w, err := startWorld(ctx)
	if err != nil {
		return r, err
	}
	weatherErr := weather(ctx, w, p, r)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	stopErr := w.stop(stopCtx)
	if weatherErr != nil {
		return r, errors.Join(weatherErr, stopErr, os.RemoveAll(w.dir))
	}
	r.errorRow("everything ends in good order", stopErr)
	r.row("no process, mount, control group or temporary file is left", before.leftovers(w))
	return r, nil
}

// weather is the storm itself and what is seen after it.
func weather(ctx context.Context, w *world, p plan.Plan, r *report) error {
	l, err := newLoad(ctx, w)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := l.prepare(ctx); err != nil {
		return err
	}
	patience := settlePatience(time.Since(began))
	r.say("everything is up after %.0f s; it gets %.0f s to settle", time.Since(began).Seconds(), patience.Seconds())
	stopLoad := l.run(ctx)
	rage(ctx, w, p)
	stopLoad()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.say("%s", l.summary(w.keeper))
	judge(ctx, w, l, r, patience)
	return ctx.Err()
}

// settlePatience scales with what an undisturbed start took: the machine may be
// busy. Leases, retries and back-offs have fixed lengths, so there is a least one.
func settlePatience(start time.Duration) time.Duration {
	return min(max(100*time.Second, 8*start), 6*time.Minute)
}

// rage lets all faults of the plan happen, and returns when the last one is over
// and the span has passed.
func rage(ctx context.Context, w *world, p plan.Plan) {
	began := time.Now()
	var faults sync.WaitGroup
	for _, f := range p.Faults {
		faults.Go(func() {
			if wait(ctx, time.Until(began.Add(f.At))) {
				w.happen(ctx, f)
			}
		})
	}
	faults.Wait()
	wait(ctx, time.Until(began.Add(p.Span)))
}

// wait reports whether it waited to the end.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
