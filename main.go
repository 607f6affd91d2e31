// Command manager is the sandbox operator: it reconciles SandboxRuntimes,
// SandboxFunctions and SandboxRuns against the iii-sandbox daemon, publishes
// functions on the iii bus, and serves sandbox-code-runner's functions there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	// Credentials of the common clouds, for a kubeconfig on a laptop.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/sandbox-operator/sandbox-operator/controllers"
)

func main() {
	options, logging, err := parseFlags(os.Args[1:], os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox-operator:", err)
		os.Exit(2)
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(logging)))
	collectSooner(os.Getenv)
	if err := run(ctrl.SetupSignalHandler(), options); err != nil {
		ctrl.Log.WithName("setup").Error(err, "The operator ends")
		os.Exit(1)
	}
}

// gcPercent is how much the heap grows from one collection to the next, in percent
// of what is in use. That is above all what is cached and known of each function: it
// lives long and changes seldom, so that the usual 100 would take for garbage nearly
// as much memory as for the functions, and collecting twice as often costs little.
const gcPercent = 50

// collectSooner leaves the collector as it is for who sets GOGC.
func collectSooner(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

func run(ctx context.Context, o options) error {
	fence := newFence()
	o.MayLead = fence.open
	mgr, err := newManager(o, fence)
	if err != nil {
		return err
	}
	op, err := controllers.New(ctx, mgr, o.Options)
	if err != nil {
		return err
	}
	if err := op.Register(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
