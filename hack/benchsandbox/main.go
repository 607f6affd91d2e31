// Command benchsandbox measures the namespaces back end of the sandbox daemon,
// beside bwrap doing the same in the same run, and looks for what stays behind.
// It prints a table and writes out/bench-sandbox.json.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// patience bounds the whole program.
const patience = 15 * time.Minute

// options are what a person chooses; the numbers are counts.
type options struct {
	rounds, held, cycles int
	output               string
}

func main() {
	namespaces.RunInitIfAsked()
	var o options
	flag.IntVar(&o.rounds, "rounds", 100, "measurements of each kind")
	flag.IntVar(&o.held, "held", 200, "sandboxes that are held at once")
	flag.IntVar(&o.cycles, "cycles", 1000, "sandboxes that are made and stopped in search of leaks")
	flag.StringVar(&o.output, "output", "out/bench-sandbox.json", "where the metrics are written")
	flag.Parse()
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, patience)
	err := measure(ctx, o, os.Stdout, os.Stderr)
	cancel()
	stopSignals()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-sandbox:", err)
		os.Exit(1)
	}
}

// measure runs every measurement and reports what it found. Leaks are an error.
func measure(ctx context.Context, o options, out, progress io.Writer) (err error) {
	logger := slog.New(slog.NewTextHandler(progress, nil))
	backend, err := namespaces.New(namespaces.Options{Logger: logger, Spare: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	cold, err := namespaces.New(namespaces.Options{Logger: logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cold.Close()) }()
	b := &bench{ctx: ctx, backend: backend, cold: cold, options: o, progress: progress, metrics: figures.Metrics{}}
	if err := backend.SelfTest(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "layers: %s\nlimits: %s\n", backend.Layers(), backend.Limits())
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"create, beside bwrap", b.create}, {"exec, beside a bare spawn", b.exec}, {"concurrent creates", b.concurrent},
		{"memory of idle sandboxes", b.idle}, {"sandboxes held", b.hold}, {"cycles of create and stop", b.cycle},
	} {
		_, _ = fmt.Fprintf(progress, "  measuring %s\n", step.name)
		if err := step.do(); err != nil {
			return fmt.Errorf("measuring %s: %w", step.name, err)
		}
	}
	b.metrics.Print(out, targets)
	if err := b.metrics.Write(o.output); err != nil {
		return err
	}
	if leaked := b.metrics["sandbox.leaked"]; leaked > 0 {
		return fmt.Errorf("%.0f processes, mounts, control groups and descriptors are left behind", leaked)
	}
	return nil
}
