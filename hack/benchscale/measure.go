package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// round is one stack with one number of functions.
type round struct {
	settings
	name      string
	functions int
	// watched is how long the operator is watched at rest.
	watched time.Duration
}

// result is what a round measured.
type result struct {
	functions int
	// ready is the time from the first create until all functions were Ready.
	ready time.Duration
	// applied is what the operator asked of the API server for that, appliedCPU the
	// time that it computed.
	applied    requests
	appliedCPU time.Duration
	// bytesBefore is the operator's memory without a function, bytes that with all
	// of them at rest, bytesRestarted that of an operator that found them there.
	bytesBefore, bytes, bytesRestarted float64
	// rest is how long it was watched at rest, resting what it asked meanwhile,
	// restCPU the time that it computed.
	rest, restCPU time.Duration
	resting       requests
	editing       editing
	// stopped is how long the operator took to end, served the time from its start
	// until every function had answered, restarted what it asked for that.
	stopped, served time.Duration
	restarted       requests
}

// measure runs a round from an empty control plane to a restarted operator.
func measure(ctx context.Context, r round) (got result, err error) {
	fmt.Printf("%d functions over %d runtimes\n", r.functions, r.runtimes)
	got.functions = r.functions
	w, err := start(ctx, r)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, part := range []struct {
		name string
		run  func(context.Context, *world, round, *result) error
	}{
		{"starting the operator", measureStart},
		{"apply to Ready", measureApply},
		{"at rest", measureRest},
		{"edits", measureEdits},
		{"restart", measureRestart},
	} {
		began := time.Now()
		if err := part.run(ctx, w, r, &got); err != nil {
			return got, fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Printf("  %-26s %6.1f s\n", part.name, time.Since(began).Seconds())
	}
	return got, nil
}

func measureStart(ctx context.Context, w *world, _ round, got *result) (err error) {
	if err := errors.Join(w.makeNamespaces(ctx), w.startOperator(ctx)); err != nil {
		return err
	}
	if _, err := w.settle(ctx); err != nil {
		return err
	}
	got.bytesBefore, err = w.memory()
	return err
}

func measureApply(ctx context.Context, w *world, r round, got *result) error {
	before, err := w.audit.read()
	if err != nil {
		return err
	}
	computing, err := w.computing()
	if err != nil {
		return err
	}
	if got.ready, err = w.apply(ctx, r.all()); err != nil {
		return err
	}
	after, err := w.settle(ctx)
	if err != nil {
		return err
	}
	got.applied = after.since(before)
	if got.appliedCPU, err = computing(); err != nil {
		return err
	}
	return w.awaitServed(ctx, r.all(), nil)
}

// measureRest watches the operator with nothing to do. Its memory is that of
// afterwards, when what the work needed has been given back.
func measureRest(ctx context.Context, w *world, r round, got *result) error {
	before, err := w.settle(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	computing, err := w.computing()
	if err != nil {
		return err
	}
	if err := pause(ctx, r.watched); err != nil {
		return err
	}
	got.rest = time.Since(began)
	if got.restCPU, err = computing(); err != nil {
		return err
	}
	after, err := w.audit.read()
	if err != nil {
		return err
	}
	got.resting = after.since(before)
	got.bytes, err = w.memory()
	return err
}

func measureEdits(ctx context.Context, w *world, r round, got *result) (err error) {
	got.editing, err = w.editSome(ctx, r.all(), r.edits)
	return err
}

// measureRestart ends the operator in good order, as a rollout does.
func measureRestart(ctx context.Context, w *world, r round, got *result) error {
	before, err := w.settle(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := w.stack.StopPart(ctx, stack.Operator); err != nil {
		return err
	}
	got.stopped, began = time.Since(began), time.Now()
	if err := w.startOperator(ctx); err != nil {
		return err
	}
	if err := w.awaitServed(ctx, r.all(), got.editing.editions); err != nil {
		return err
	}
	got.served = time.Since(began)
	after, err := w.settle(ctx)
	if err != nil {
		return err
	}
	got.restarted = after.since(before)
	got.bytesRestarted, err = w.memory()
	return err
}
