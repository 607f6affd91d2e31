// Command bench starts the whole stack and measures what its users wait for: calls
// beside the other ways to have the same handler called, all in turn in one run, and
// applying, running and memory. It prints a table and writes out/bench.json, one flat
// object, metric to number, with a page (out/bench.md) and a plot (out/bench.svg)
// beside it. Times are in milliseconds. It fails if an answer is wrong, and never
// because something is slow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// patience bounds the whole benchmark.
const patience = time.Hour

// options are what a person chooses.
type options struct {
	quick, full, publish bool
	seed                 uint64
	samples              int
	operator, out        string
	// profile is a URL of the operator's.
	profile string
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "only what the ratios are taken from, about a minute")
	flag.BoolVar(&o.full, "full", false, "all combinations of handlers, callers and instances, half an hour")
	flag.BoolVar(&o.publish, "publish", false, "put table and plot into docs/performance.md and docs/performance.svg too")
	flag.Uint64Var(&o.seed, "seed", 0, "of the order of turns and of arrivals; 0 draws one, which is printed")
	flag.IntVar(&o.samples, "samples", 0, "how often what is measured one at a time is measured; 0 leaves it to the size of the run")
	flag.StringVar(&o.operator, "operator", "", "another build of the operator, as one with a profiler; empty is bin/manager")
	flag.StringVar(&o.profile, "profile", "", "where such a build serves processor profiles, as http://127.0.0.1:6060/debug/pprof/profile; one of calls goes beside -out")
	flag.StringVar(&o.out, "out", "out/bench.json", "file for the numbers; table and plot go beside it")
	flag.Parse()
	// Else its absence is told at length once the stack has taken 30 s to start.
	ctrl.SetLogger(logr.Discard())
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o)
	stopSignals()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (o options) plan() plan {
	p := defaultPlan()
	switch {
	case o.quick:
		p = quickPlan()
	case o.full:
		p = fullPlan()
	}
	if o.samples > 0 {
		p.samples = o.samples
	}
	return p
}

func run(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	fmt.Printf("  seed %d, load average %s\n", o.seed, loadAverage())
	dir, err := os.MkdirTemp("", "sandbox-operator-bench-")
	if err != nil {
		return err
	}
	defer closing(&err, func() error { return os.RemoveAll(dir) })
	b, err := start(ctx, dir, o)
	if err != nil {
		return err
	}
	defer closing(&err, b.close)
	if err := b.measure(ctx, o); err != nil {
		return err
	}
	return errors.Join(b.report(ctx, o.out, o.publish), b.verdict())
}

// closing joins the error of a clean-up to that of the work before it.
func closing(err *error, end func() error) { *err = errors.Join(*err, end()) }

// measure runs all measurements. What has a stake in how busy the machine is comes
// first; the operator's memory comes last, when it has seen everything.
func (b *bench) measure(ctx context.Context, o options) error {
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"memory at the start", b.measureIdleMemory},
		{"preparing cold calls", b.prepareCold},
		{"preparing calls", b.prepare},
		{"calls side by side", b.measureMatrix},
		{"profile", func(ctx context.Context) error { return b.measureProfile(ctx, o) }},
		{"cleaning up", b.release},
		{"cold calls", b.measureCold},
		{"calls beside direct execs", b.measureCalls},
		{"apply to Ready", b.measureApply},
		{"runs on the bus", b.measureRuns},
		{"memory at the end", b.measureMemory},
	} {
		began := time.Now()
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Printf("  %-26s %5.1f s\n", part.name, time.Since(began).Seconds())
	}
	return nil
}

// absolute makes a path independent of the working directory.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}
