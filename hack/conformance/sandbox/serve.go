package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// serveVariable carries a served as JSON to the process that serves it.
const serveVariable = "CONFORMANCE_SERVE"

// served is an engine with a daemon on it, in a process of its own.
type served struct {
	Config daemon.Config
}

// serving is what that process says once it serves, as a line of JSON.
type serving struct {
	URL, Isolation, Layers, Limits, Network string
}

// serveIfAsked turns this process into one that serves until its input ends, and
// does not return, when the suite started it as one.
func serveIfAsked() {
	text := os.Getenv(serveVariable)
	if text == "" {
		return
	}
	var s served
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = s.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (s served) serve() (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "bus", Address: "127.0.0.1:0"}}})
	if err != nil {
		return err
	}
	if err := e.Start(ctx); err != nil {
		return err
	}
	defer func() {
		closing, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		err = errors.Join(err, e.Close(closing))
	}()
	return s.run(ctx, logger, e.URL("bus"))
}

// run tests the back end, as the daemon's own command does, and then serves.
func (s served) run(ctx context.Context, logger *slog.Logger, url string) (err error) {
	backend, err := backends[s.Config.Backend].make(logger, s.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	if err := backend.SelfTest(ctx); err != nil {
		return err
	}
	client, err := bus.New(bus.Options{URL: url, Name: daemon.WorkerName, Logger: logger})
	if err != nil {
		return err
	}
	d, err := daemon.New(daemon.Options{Client: client, Backend: backend, Config: s.Config, Logger: logger})
	if err != nil {
		return err
	}
	client.Subscribe(func(event bus.Event) {
		if event.Kind == bus.Connected {
			_ = json.NewEncoder(os.Stdout).Encode(serving{url, backend.Isolation(), backend.Layers(), backend.Limits(), backend.Network()})
		}
	})
	return d.Run(ctx)
}
