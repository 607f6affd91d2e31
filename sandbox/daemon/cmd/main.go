// Command sandbox-daemon serves the sandbox::* functions on an iii bus with
// guests made of Linux namespaces, or of virtual machines where the configuration
// says so. It stands in for the iii-sandbox daemon.
//
// Exit status: 0 after a clean end, 1 when guests cannot be booted here or the
// bus refuses the worker, 2 for a bad command line or configuration.
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

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/qemu"
)

const (
	exitFailed   = 1
	exitBadInput = 2
)

func main() {
	// A guest's first process is this very program; it must come before all else.
	namespaces.RunInitIfAsked()
	qemu.RunInitIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, arguments []string, output io.Writer) int {
	settings, err := parseSettings(arguments, output)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(output, "sandbox-daemon:", err)
		return exitBadInput
	}
	logger := slog.New(slog.NewTextHandler(output, &slog.HandlerOptions{Level: settings.logLevel}))
	if err := serve(ctx, settings, logger); err != nil {
		fmt.Fprintln(output, "sandbox-daemon:", err)
		return exitFailed
	}
	return 0
}

// serve proves that guests boot on this machine, then serves until the context
// ends.
func serve(ctx context.Context, settings settings, logger *slog.Logger) (err error) {
	backend, err := newBackend(settings.config, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	if err := selfTest(ctx, settings.config, backend); err != nil {
		return err
	}
	logger.Info("Guests boot on this machine",
		"isolation", backend.Isolation(), "layers", backend.Layers(), "limits", backend.Limits(), "network", backend.Network())
	client, err := bus.New(bus.Options{
		URL: settings.engine, Name: daemon.WorkerName, Logger: logger,
		Description:       "Sandboxes: " + backend.Isolation(),
		RetryNameConflict: true,
	})
	if err != nil {
		return err
	}
	served, err := daemon.New(daemon.Options{Client: client, Backend: backend, Config: settings.config, Logger: logger})
	if err != nil {
		return err
	}
	client.Subscribe(func(event bus.Event) { logEvent(logger, event) })
	return served.Run(ctx)
}

func logEvent(logger *slog.Logger, event bus.Event) {
	switch event.Kind {
	case bus.Connected:
		logger.Info("Serving sandbox::* functions on the bus")
	case bus.Disconnected:
		logger.Warn("Connection to the bus lost; sandboxes live on", "error", event.Err)
	default:
		logger.Error("The bus refuses a registration", "function", event.FunctionID, "error", event.Err)
	}
}
