// Command benchsandbox measures a back end of the sandbox daemon, that of namespaces
// beside bwrap doing the same in the same run, and looks for what stays behind.
// It prints a table and writes out/bench-sandbox.json; the numbers of virtual machines
// begin with sandbox.qemu.
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
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/qemu"
)

// patience bounds the whole program.
const patience = 15 * time.Minute

// options are what a person chooses; the numbers are counts, and 0 is what the back
// end has for it.
type options struct {
	backend              string
	rounds, held, cycles int
	output               string
}

func main() {
	namespaces.RunInitIfAsked()
	qemu.RunInitIfAsked()
	var o options
	flag.StringVar(&o.backend, "backend", "", "namespaces or qemu (environment: BACKEND)")
	flag.IntVar(&o.rounds, "rounds", 0, "measurements of each kind")
	flag.IntVar(&o.held, "held", 0, "sandboxes that are held at once")
	flag.IntVar(&o.cycles, "cycles", 0, "sandboxes that are made and stopped in search of leaks")
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
	chosen, err := choose(&o)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(progress, nil))
	backend, err := chosen.warm(logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	cold, err := chosen.cold(logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cold.Close()) }()
	b := &bench{
		ctx: ctx, backend: backend, cold: cold, options: o, progress: progress,
		metrics: figures.Metrics{}, prefix: chosen.prefix, bursts: chosen.bursts, idleCount: chosen.idle,
	}
	for _, each := range []measured{backend, cold} {
		if err := each.SelfTest(ctx); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(out, "layers: %s\nlimits: %s\n", backend.Layers(), backend.Limits())
	if err := b.measureAll(); err != nil {
		return err
	}
	b.metrics.Print(out, targets)
	if err := b.metrics.Write(o.output); err != nil {
		return err
	}
	if leaked := b.metrics[b.prefix+"leaked"]; leaked > 0 {
		return fmt.Errorf("%.0f processes, mounts, control groups and descriptors are left behind", leaked)
	}
	return nil
}

func (b *bench) measureAll() error {
	// The first of a size may make what the others find ready.
	if _, _, err := b.cycleOnce(); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"create, beside bwrap", b.create}, {"exec, beside a bare spawn", b.exec}, {"concurrent creates", b.concurrent},
		{"memory of idle sandboxes", b.idle}, {"sandboxes held", b.hold}, {"cycles of create and stop", b.cycle},
	} {
		_, _ = fmt.Fprintf(b.progress, "  measuring %s\n", step.name)
		if err := step.do(); err != nil {
			return fmt.Errorf("measuring %s: %w", step.name, err)
		}
	}
	return nil
}
