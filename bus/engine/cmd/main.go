// Command cmd runs the embedded iii engine on its own.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// closePatience bounds the end of the program after a signal.
const closePatience = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run serves until the context ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	options, err := parse(args, stderr)
	if err != nil {
		return err
	}
	config := options.engineConfig()
	config.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	e, err := engine.New(config)
	if err != nil {
		return err
	}
	if err := e.Start(ctx); err != nil {
		return err
	}
	announce(stdout, e, config)
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	return e.Close(closing)
}

func announce(stdout io.Writer, e *engine.Engine, config engine.Config) {
	for _, l := range config.Listeners {
		_, _ = fmt.Fprintf(stdout, "%s %s\n", l.Name, e.URL(l.Name))
	}
	if url := e.HTTPURL(); url != "" {
		_, _ = fmt.Fprintf(stdout, "http %s\n", url)
	}
}
