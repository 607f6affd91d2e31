// Command dev runs the whole of sandbox-operator on this machine until it gets
// SIGINT or SIGTERM: a Kubernetes control plane, the bus engine, the sandbox
// daemon and the operator, all on loopback. `make dev` builds what it needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// stopPatience bounds the end; a second signal ends it at once.
const stopPatience = 3 * time.Minute

func main() {
	var options stack.Options
	var noBuild bool
	flag.StringVar(&options.Dir, "dir", ".dev", "folder of the kubeconfig, the env file and the logs")
	flag.StringVar(&options.BusAddress, "bus-address", "", "loopback address of the bus, a free port by default")
	flag.StringVar(&options.HTTPAddress, "http-address", "", "loopback address of http triggers, a free port by default")
	flag.BoolVar(&options.SkipDaemon, "skip-daemon", false, "leave the sandbox daemon out")
	flag.BoolVar(&options.SkipOperator, "skip-operator", false, "leave the operator out, to run it in a debugger")
	flag.BoolVar(&noBuild, "no-build", false, "do not run `make build` first")
	flag.Parse()
	if err := run(options, noBuild); err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

func run(options stack.Options, noBuild bool) error {
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stopSignals()
	if !noBuild {
		if err := build(ctx); err != nil {
			return err
		}
	}
	options.Progress = printStep
	s, err := stack.Start(ctx, options)
	if err != nil {
		return err
	}
	printWhere(os.Stdout, s)
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-s.Failed():
		fmt.Fprintln(os.Stderr, "dev:", failure)
	}
	// From here on a second signal ends this program the usual way, and the
	// kernel ends the parts.
	stopSignals()
	fmt.Println("\nStopping …")
	stopCtx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	return errors.Join(failure, s.Stop(stopCtx))
}

// build runs make, which says what it does when that takes long. In a process
// group of its own it would not get the terminal's Ctrl-C; here it does.
func build(ctx context.Context) error {
	command := exec.CommandContext(ctx, "make", "--no-print-directory", "controlplane", "build")
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("make controlplane build: %w", err)
	}
	return nil
}

func printStep(step stack.Step) {
	fmt.Printf("  ✓ %-26s %6.1f s   %s\n", step.Name, step.Took.Seconds(), step.Detail)
}

func printWhere(w io.Writer, s *stack.Stack) {
	dir := filepath.Dir(s.Kubeconfig)
	rows := [][2]string{
		{"bus (workers)", s.BusURL},
		{"bus (guests)", s.GuestBusURL},
		{"http triggers", s.HTTPURL},
		{"operator metrics", s.MetricsURL},
		{"operator probes", s.ProbeURL},
		{"kubeconfig", s.Kubeconfig},
		{"logs", filepath.Dir(s.LogPath(stack.Operator))},
		{"runs namespace", s.RunsNamespace()},
	}
	fmt.Fprintln(w, "\nThe stack is up:")
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(w, "  %-18s %s\n", row[0], row[1])
		}
	}
	fmt.Fprintf(w, "\nIn another shell:\n  source %s\n  kubectl apply -k config/samples && kubectl get sandbox\n\nCtrl-C stops it.\n",
		filepath.Join(dir, "env"))
}
