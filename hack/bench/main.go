// Command bench starts the whole stack and measures what its users wait for. It
// prints a table and writes out/bench.json: one flat object, metric to number.
// Every number is a median over -samples; times are in milliseconds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// patience bounds the whole benchmark.
const patience = 20 * time.Minute

func main() {
	samples := flag.Int("samples", 50, "how often each thing is measured")
	out := flag.String("out", "out/bench.json", "file for the numbers")
	flag.Parse()
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *samples, *out)
	stopSignals()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is what the measurements share.
type bench struct {
	samples int
	stack   *stack.Stack
	kube    client.WithWatch
	bus     *bus.Client
	metrics figures.Metrics
}

func run(ctx context.Context, samples int, out string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dir, err := os.MkdirTemp("", "sandbox-operator-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logs, err := filepath.Abs("out/bench-logs")
	if err != nil {
		return err
	}
	s, err := stack.Start(ctx, stack.Options{Dir: dir, LogDir: logs, Progress: func(step stack.Step) {
		fmt.Printf("  %-26s %5.1f s\n", step.Name, step.Took.Seconds())
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopStack(s)) }()
	b := &bench{samples: samples, stack: s, metrics: figures.Metrics{}}
	return b.measure(ctx, out)
}

func stopStack(s *stack.Stack) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return s.Stop(ctx)
}

// measure runs all measurements; the operator's memory comes last, when it has
// seen everything.
func (b *bench) measure(ctx context.Context, out string) error {
	disconnect, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer disconnect()
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"memory at the start", b.measureIdleMemory},
		{"apply to Ready", b.measureApply},
		{"calls", b.measureCalls},
		{"runs on the bus", b.measureRuns},
		{"memory at the end", b.measureMemory},
	} {
		began := time.Now()
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
		fmt.Printf("  measured %-26s %5.1f s\n", part.name, time.Since(began).Seconds())
	}
	b.metrics.Print(os.Stdout, targets)
	return b.metrics.Write(out)
}

// connect makes the clients; the returned function ends the bus connection.
func (b *bench) connect(ctx context.Context) (func(), error) {
	config, err := clientcmd.BuildConfigFromFlags("", b.stack.Kubeconfig)
	if err != nil {
		return nil, err
	}
	// What is measured is the operator, not the queue of this client.
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if b.kube, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if b.bus, err = bus.New(bus.Options{URL: b.stack.BusURL, Name: "bench"}); err != nil {
		return nil, err
	}
	busCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.bus.Run(busCtx) // a refusal shows as calls that fail
	}()
	disconnect := func() {
		cancel()
		<-ended
	}
	if err := b.bus.WaitConnected(ctx); err != nil {
		disconnect()
		return nil, err
	}
	return disconnect, nil
}
