// Command runner proves that the operator is a whole sandbox-code-runner, with
// the published iii-sdk as the caller and the whole embedded stack behind: each
// row of contracts/code-runner.md §18 but the console's is a test. It prints a
// line for each row and ends with "N passed, N failed".
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience bounds the whole program, the first installation of the packages
// included.
const patience = 15 * time.Minute

func main() {
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, patience)
	code := execute(ctx)
	cancel()
	stopSignals()
	os.Exit(code)
}

// options are what a person chooses.
type options struct {
	// only selects rows by the beginning of their name; empty selects all.
	only string
	// width is how many rows run at the same time.
	width int
}

func execute(ctx context.Context) int {
	var o options
	var table bool
	flag.StringVar(&o.only, "only", "", "run only rows whose name begins with one of these, separated by commas")
	flag.IntVar(&o.width, "width", 5, "how many rows run at the same time")
	flag.BoolVar(&table, "table", false, "print the tables of docs/code-runner.md and end")
	flag.Parse()
	if table {
		fmt.Print(tables())
		return 0
	}
	sum, err := run(ctx, o, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance-runner:", err)
		return 1
	}
	if sum.failed > 0 {
		return 1
	}
	return 0
}

// totals counts rows.
type totals struct{ passed, failed int }

// run starts the world, runs the rows and ends the world, which may not fail. An
// error means that the rows could not be run, not that one failed.
func run(ctx context.Context, o options, out, progress io.Writer) (totals, error) {
	w, err := startWorld(ctx, progress)
	if err != nil {
		return totals{}, err
	}
	r := report{out: out}
	r.about(w)
	schedule(ctx, w, selected(o.only), o.width, &r)
	r.end("the stack", "ends with nothing left", w.stop(context.WithoutCancel(ctx)))
	_, _ = fmt.Fprintf(out, "%d passed, %d failed\n", r.sum.passed, r.sum.failed)
	return r.sum, ctx.Err()
}
