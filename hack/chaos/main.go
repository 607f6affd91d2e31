// Command chaos sends storms over the whole embedded stack. A seed fixes what goes
// wrong, and when, while functions are called and edited and programs run; then
// everything must be as the objects say. It ends with "N passed, N failed", and
// looks for the smallest part of a failing storm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/go-logr/logr"

	"github.com/sandbox-operator/sandbox-operator/hack/chaos/plan"
)

// options are what a person chooses.
type options struct {
	seed  uint64
	short bool
	// keep lists the faults to keep; empty keeps all.
	keep string
	// shrink is how many smaller storms are tried after one that failed.
	shrink int
	// dry prints the plan only.
	dry bool
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "what the plan is drawn from")
	flag.BoolVar(&o.short, "short", false, "a short storm of some faults instead of one with every kind")
	flag.StringVar(&o.keep, "keep", "", "keep only these faults of the plan, such as 3,7")
	flag.IntVar(&o.shrink, "shrink", 6, "how many smaller storms to try after one that failed")
	flag.BoolVar(&o.dry, "dry-run", false, "print the plan and end")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	failed, err := execute(ctx, o, os.Stdout)
	stopSignals()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// execute runs the storm of the options. An error means that it could not be run.
func execute(ctx context.Context, o options, out io.Writer) (failed bool, err error) {
	p, err := o.plan()
	if err != nil {
		return false, err
	}
	fmt.Fprint(out, p)
	if o.dry {
		return false, nil
	}
	r, err := storm(ctx, p, out)
	if err != nil {
		return false, err
	}
	if r.failed > 0 {
		shrink(ctx, p, o.shrink, out)
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", r.passed, r.failed)
	return r.failed > 0, nil
}

func (o options) plan() (plan.Plan, error) {
	p := plan.Draw(o.seed, o.short)
	if o.keep == "" {
		return p, nil
	}
	numbers, err := plan.ParseNumbers(o.keep)
	if err != nil {
		return p, err
	}
	return p.Keep(numbers)
}

// shrink prints the smallest storm that it finds to fail still.
func shrink(ctx context.Context, p plan.Plan, tries int, out io.Writer) {
	small := plan.Shrink(p, tries, func(candidate plan.Plan) bool {
		if ctx.Err() != nil {
			return false
		}
		fmt.Fprintf(out, "\nDoes less fail too? %s", candidate)
		r, err := storm(ctx, candidate, out)
		if err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintf(out, "  it could not be run: %v\n", err)
		}
		return err == nil && r.failed > 0
	})
	fmt.Fprintf(out, "\nReplay it with: %s\n", small.Command())
}

// stopPatience bounds the end of everything after a storm or a signal.
const stopPatience = 3 * time.Minute
