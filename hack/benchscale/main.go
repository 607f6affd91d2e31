// Command bench-scale runs the operator with thousands of functions and measures
// what that takes: writes to the API server, memory, processor time and time. The
// API server, the engine and the operator are real; the sandboxes are scripted,
// since no machine that runs this has room for so many. It prints a table and
// writes out/bench-scale.json: one flat object, metric to number.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// patience bounds the whole benchmark.
const patience = 40 * time.Minute

// settings say how much is measured.
type settings struct {
	// small and large are the two numbers of functions that are compared.
	small, large int
	// runtimes is how many runtimes the functions are spread over.
	runtimes int
	// smallRest and rest are how long the operator is watched with nothing to do, with
	// the small and the large number of functions. Memory that was freed takes minutes
	// to go back to the kernel.
	smallRest, rest time.Duration
	// edits is how many functions are edited, one after another.
	edits int
	// operator is the program that is measured; empty is bin/manager.
	operator string
}

func main() {
	s := settings{small: 1000, large: 5000, runtimes: 100, smallRest: 3 * time.Minute, rest: 10 * time.Minute, edits: 100}
	if os.Getenv("QUICK") != "" {
		s = settings{small: 200, large: 1000, runtimes: 100, smallRest: time.Minute, rest: time.Minute, edits: 30}
	}
	flag.IntVar(&s.small, "small", s.small, "the smaller number of functions")
	flag.IntVar(&s.large, "large", s.large, "the larger number of functions")
	flag.IntVar(&s.runtimes, "runtimes", s.runtimes, "number of runtimes that they are spread over")
	flag.DurationVar(&s.smallRest, "small-rest", s.smallRest, "how long the operator is watched at rest with the smaller number")
	flag.DurationVar(&s.rest, "rest", s.rest, "and with the larger")
	flag.IntVar(&s.edits, "edits", s.edits, "how many functions are edited")
	flag.StringVar(&s.operator, "operator", "", "the operator to measure, bin/manager by default")
	out := flag.String("out", "out/bench-scale.json", "file for the numbers")
	flag.Parse()
	// The client libraries would write into the table.
	ctrl.SetLogger(klog.Background())
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, s, *out)
	stopSignals()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-scale:", err)
		os.Exit(1)
	}
}

// run measures both numbers of functions, each with a stack of its own, so that
// neither sees what the other left.
func run(ctx context.Context, s settings, out string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	small, err := measure(ctx, round{settings: s, name: "small", functions: s.small, watched: s.smallRest})
	if err != nil {
		return err
	}
	large, err := measure(ctx, round{settings: s, name: "large", functions: s.large, watched: s.rest})
	if err != nil {
		return err
	}
	metrics := figures.Metrics{}
	small.addTo(metrics, "small")
	large.addTo(metrics, "large")
	addHeadlines(metrics, small, large)
	metrics.Print(os.Stdout, targets)
	return metrics.Write(out)
}
