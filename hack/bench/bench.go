package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
	"github.com/sandbox-operator/sandbox-operator/hack/figures"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/iii"
)

const (
	// connections are those that callers share: one alone would be one writer and one
	// reader for all.
	connections = 4
	// stopPatience bounds the end of the stack.
	stopPatience = 2 * time.Minute
)

// bench is what the measurements share.
type bench struct {
	root       string
	plan       plan
	seed       uint64
	random     *rand.Rand
	loadBefore string
	stack      *stack.Stack
	kube       client.WithWatch
	callers    []caller
	// bus and provider are those of the first caller.
	bus       *bus.Client
	provider  sandbox.Provider
	host      *hostPrograms
	originals map[string]*original
	set       results.Set
	metrics   figures.Metrics
	notes     []string
	// ends undo what was started, the last one first.
	ends []func() error

	mu         sync.Mutex
	firstWrong error
}

// caller is one connection to the bus.
type caller struct {
	bus      *bus.Client
	provider sandbox.Provider
}

// start brings everything up that lives as long as the benchmark; after an error
// nothing is left.
func start(ctx context.Context, dir string, o options) (*bench, error) {
	b := &bench{
		plan: o.plan(), seed: o.seed, random: rand.New(rand.NewPCG(o.seed, o.seed)), loadBefore: loadAverage(),
		originals: map[string]*original{}, set: results.Set{}, metrics: figures.Metrics{},
	}
	if err := b.startAll(ctx, dir, o); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) startAll(ctx context.Context, dir string, o options) (err error) {
	if b.root, err = os.Getwd(); err != nil {
		return err
	}
	programs := filepath.Join(dir, "programs")
	if err := os.Mkdir(programs, 0o700); err != nil {
		return err
	}
	if b.host, err = newHostPrograms(programs); err != nil {
		return err
	}
	if err := b.startStack(ctx, filepath.Join(dir, "stack"), o.operator); err != nil {
		return err
	}
	return b.connect(ctx)
}

func (b *bench) close() error {
	var errs []error
	for _, end := range slices.Backward(b.ends) {
		errs = append(errs, end())
	}
	b.ends = nil
	return errors.Join(errs...)
}

func (b *bench) startStack(ctx context.Context, dir, operator string) error {
	logs, err := filepath.Abs("out/bench-logs")
	if err != nil {
		return err
	}
	if operator, err = absolute(operator); err != nil {
		return err
	}
	b.stack, err = stack.Start(ctx, stack.Options{Dir: dir, LogDir: logs, OperatorProgram: operator, Progress: func(step stack.Step) {
		fmt.Printf("  %-26s %5.1f s\n", step.Name, step.Took.Seconds())
	}})
	if err != nil {
		return err
	}
	b.ends = append(b.ends, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		return b.stack.Stop(ctx)
	})
	return nil
}

// connect makes the clients.
func (b *bench) connect(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", b.stack.Kubeconfig)
	if err != nil {
		return err
	}
	// What is measured is the operator, not the queue of this client.
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if b.kube, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	for i := range connections {
		connected, err := b.join(ctx, fmt.Sprintf("bench-%d", i))
		if err != nil {
			return err
		}
		b.callers = append(b.callers, caller{connected, iii.New(iii.Options{Client: connected})})
	}
	b.bus, b.provider = b.callers[0].bus, b.callers[0].provider
	return nil
}

// join connects to the bus until the benchmark ends.
func (b *bench) join(ctx context.Context, name string) (*bus.Client, error) {
	joined, err := bus.New(bus.Options{URL: b.stack.BusURL, Name: name})
	if err != nil {
		return nil, err
	}
	busCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = joined.Run(busCtx) // A refusal shows as calls that fail.
	}()
	b.ends = append(b.ends, func() error {
		cancel()
		<-ended
		return nil
	})
	if err := joined.WaitConnected(ctx); err != nil {
		return nil, err
	}
	return joined, nil
}

// callerOf spreads callers over the connections.
func (b *bench) callerOf(number int) caller { return b.callers[number%len(b.callers)] }

// note is a sentence for the page about what could not be measured.
func (b *bench) note(sentence string) { b.notes = append(b.notes, sentence) }

// wrong remembers the first call without the right answer.
func (b *bench) wrong(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.firstWrong == nil {
		b.firstWrong = fmt.Errorf("%s: %w", what, err)
	}
}

// verdict is an error if a call had a wrong answer, or none.
func (b *bench) verdict() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.firstWrong == nil {
		return nil
	}
	failed, calls := b.set.Failed()
	return fmt.Errorf("%d of %d calls side by side have no right answer; the first of all: %w", failed, calls, b.firstWrong)
}
