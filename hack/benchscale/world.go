package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// stopPatience bounds the end of a stack.
const stopPatience = 3 * time.Minute

// world is one stack with the scripted sandboxes, and the clients of the
// benchmark.
type world struct {
	stack    *stack.Stack
	kube     client.Client
	bus      *bus.Client
	observer *observer
	audit    *auditLog
	// ends undo what was started, the last one first.
	ends []func() error
}

// start brings a world up without the operator; the caller closes it. After an
// error nothing is left.
func start(ctx context.Context, r round) (*world, error) {
	w := &world{}
	for _, part := range []func() error{
		func() error { return w.startStack(ctx, r) },
		func() error { return w.startDaemon(ctx, r.runtimes) },
		func() error { return w.connect(ctx) },
	} {
		if err := part(); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

func (w *world) close() error {
	var errs []error
	for _, end := range slices.Backward(w.ends) {
		errs = append(errs, end())
	}
	w.ends = nil
	return errors.Join(errs...)
}

func (w *world) startStack(ctx context.Context, r round) error {
	dir, err := os.MkdirTemp("", "sandbox-operator-bench-scale-")
	if err != nil {
		return err
	}
	w.ends = append(w.ends, func() error { return os.RemoveAll(dir) })
	logs, err := filepath.Abs(filepath.Join("out", "bench-scale-logs", r.name))
	if err != nil {
		return err
	}
	w.stack, err = stack.Start(ctx, stack.Options{
		Dir: dir, LogDir: logs, OperatorProgram: r.operator, Audit: true, SkipDaemon: true, SkipOperator: true,
	})
	if err != nil {
		return err
	}
	w.ends = append(w.ends, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		return w.stack.Stop(ctx)
	})
	w.audit = newAuditLog(w.stack.AuditPath())
	return nil
}

// inBackground runs something until the world is closed.
func (w *world) inBackground(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	w.ends = append(w.ends, func() error {
		cancel()
		return <-ended
	})
}

// startDaemon serves the scripted sandboxes on the bus.
func (w *world) startDaemon(ctx context.Context, sandboxes int) error {
	worker, err := bus.New(bus.Options{URL: w.stack.BusURL, Name: daemon.WorkerName, Description: "Sandboxes that are scripted"})
	if err != nil {
		return err
	}
	config := daemon.DefaultConfig()
	config.ImageAllowlist, config.MaxConcurrentSandboxes = []string{"node"}, sandboxes
	served, err := daemon.New(daemon.Options{Client: worker, Backend: newBackend(), Config: config})
	if err != nil {
		return err
	}
	w.inBackground(served.Run)
	return worker.WaitConnected(ctx)
}

func (w *world) connect(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", w.stack.Kubeconfig)
	if err != nil {
		return err
	}
	// What is measured is the operator, not the queue of this client.
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if w.kube, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	watched, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	w.inBackground(watched.Start)
	if w.observer, err = observe(ctx, watched); err != nil {
		return err
	}
	if w.bus, err = bus.New(bus.Options{URL: w.stack.BusURL, Name: "bench-scale"}); err != nil {
		return err
	}
	w.inBackground(w.bus.Run)
	return w.bus.WaitConnected(ctx)
}

func (w *world) startOperator(ctx context.Context) error {
	return w.stack.StartPart(ctx, stack.Operator)
}

func (w *world) memory() (float64, error) { return residentBytes(w.stack.PID(stack.Operator)) }

// computing returns a function that says how long the operator has computed since.
func (w *world) computing() (func() (time.Duration, error), error) {
	pid := w.stack.PID(stack.Operator)
	before, err := processorTime(pid)
	return func() (time.Duration, error) {
		after, err := processorTime(pid)
		return after - before, err
	}, err
}

const (
	// settledFor is how long nothing must be written for the operator to count as
	// settled.
	settledFor = 5 * time.Second
	// settlePatience bounds the wait for that.
	settlePatience = 2 * time.Minute
)

// settle waits until the operator writes no more, and returns all that it has
// asked so far.
func (w *world) settle(ctx context.Context) (requests, error) {
	deadline := time.Now().Add(settlePatience)
	quietSince, writes := time.Now(), -1
	for {
		all, err := w.audit.read()
		if err != nil {
			return nil, err
		}
		if now := all.writes().sum(); now != writes {
			quietSince, writes = time.Now(), now
		}
		if time.Since(quietSince) >= settledFor {
			return all, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the operator still writes %s after all functions were as they should be", settlePatience)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
