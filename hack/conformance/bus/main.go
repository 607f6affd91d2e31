// Command bus proves the embedded engine with clients that are not ours: the
// published iii-sdk packages of npm and PyPI, pinned, over real sockets. It
// prints a line for each row and ends with "N passed, N failed".
//
// Rows carry the section of contracts/iii-bus.md that they come from.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/conformance/rows"
)

// patience bounds the whole program, the first installation of the packages
// included.
const patience = 10 * time.Minute

func main() {
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, patience)
	sum, err := run(ctx, os.Stdout, os.Stderr)
	cancel()
	stopSignals()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance-bus:", err)
		os.Exit(1)
	}
	if sum.failed > 0 {
		os.Exit(1)
	}
}

// totals counts rows.
type totals struct{ passed, failed int }

// run installs the clients, drives an engine of its own with each of them at the
// same time, and prints their rows one suite after the other. An error means
// that the suites could not be run, not that a row failed.
func run(ctx context.Context, out, progress io.Writer) (totals, error) {
	suites, err := allSuites(ctx, progress)
	if err != nil {
		return totals{}, err
	}
	reports := make([]rows.Report, len(suites))
	var group sync.WaitGroup
	for i, s := range suites {
		group.Go(func() { reports[i] = s.run(ctx) })
	}
	group.Wait()
	var sum totals
	for i, s := range suites {
		reports[i].Print(out, s.name)
		sum.passed += reports[i].Count(true)
		sum.failed += reports[i].Count(false)
	}
	_, _ = fmt.Fprintf(out, "%d passed, %d failed\n", sum.passed, sum.failed)
	return sum, nil
}
