// Command benchbus measures the bus: a call through the engine and two clients
// against the floor, a bare WebSocket echo of the same bytes between two
// processes, interleaved in the same run. It
// prints a table and writes out/bench-bus.json: one flat object, metric to
// number.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// patience bounds the whole benchmark.
const patience = 5 * time.Minute

// sizes say how much is measured.
type sizes struct {
	// rounds alternate between roundCalls bare echoes and roundCalls calls.
	rounds, roundCalls int
	// loadCalls are made at each higher number in flight.
	loadCalls int
	// workers share functions among them.
	workers, functions int
}

func main() {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	s := sizes{rounds: 40, roundCalls: 250, workers: 200, functions: 10_000}
	flag.IntVar(&s.loadCalls, "calls", 60_000, "calls at 16 and at 256 in flight")
	out := flag.String("out", "out/bench-bus.json", "file for the numbers")
	flag.Parse()
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, patience)
	err := run(ctx, s, *out)
	cancel()
	stopSignals()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-bus:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s sizes, out string) error {
	m := figures.Metrics{}
	for _, part := range []struct {
		name    string
		measure func(context.Context, sizes, figures.Metrics) error
	}{
		{"calls", measureCalls},
		{"calls on one processor", measureOneProcessor},
		{"10,000 functions", measureFleet},
	} {
		began := time.Now()
		if err := part.measure(ctx, s, m); err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
		fmt.Printf("  measured %-20s %5.1f s\n", part.name, time.Since(began).Seconds())
	}
	m.Print(os.Stdout, targets)
	return m.Write(out)
}

// closing joins the error of a clean-up to that of the work before it.
func closing(err *error, end func() error) { *err = errors.Join(*err, end()) }
