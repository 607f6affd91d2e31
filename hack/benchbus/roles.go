package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// This program starts itself again with a role in its environment. A role
// writes its greeting, then its figures for each line it reads, and ends with
// its input, so that none outlives the benchmark.
const (
	roleVariable = "BENCHBUS_ROLE"
	urlVariable  = "BENCHBUS_URL"

	engineRole   = "engine"
	executorRole = "executor"

	openListener = "workers"
	// echoFunction is served by the executor's process, nearFunction by a second
	// client in the caller's.
	echoFunction = "bench::echo"
	nearFunction = "bench::echo_near"
	// handlers is above the largest number of calls in flight.
	handlers = 1024
	ending   = 10 * time.Second
)

// greeting is the first line of a role.
type greeting struct {
	Bus string `json:"bus,omitempty"`
	// Echo is the URL of the bare echo.
	Echo string `json:"echo,omitempty"`
}

// usage is what a role knows of itself.
type usage struct {
	Mallocs uint64 `json:"mallocs"`
	// RSSMB is the resident memory in MiB, before anything is collected for it.
	RSSMB      float64 `json:"rss_mb"`
	Goroutines int     `json:"goroutines"`
}

func playRole(role string) int {
	play := map[string]func(context.Context) error{engineRole: playEngine, executorRole: playExecutor}[role]
	if play == nil {
		fmt.Fprintln(os.Stderr, "unknown role", role)
		return 2
	}
	if err := play(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// playEngine serves the engine, and a bare echo on a port of its own.
func playEngine(ctx context.Context) (err error) {
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: openListener, Address: "127.0.0.1:0"}}})
	if err != nil {
		return err
	}
	if err := e.Start(ctx); err != nil {
		return err
	}
	defer closing(&err, func() error {
		ctx, cancel := context.WithTimeout(ctx, ending)
		defer cancel()
		return e.Close(ctx)
	})
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	bare := &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: ending}
	go func() { _ = bare.Serve(socket) }()
	defer closing(&err, bare.Close)
	return obey(greeting{Bus: e.URL(openListener), Echo: "ws://" + socket.Addr().String()})
}

// echo sends back what comes, until the peer goes.
func echo(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = socket.CloseNow() }()
	for {
		kind, frame, err := socket.Read(r.Context())
		if err != nil || socket.Write(r.Context(), kind, frame) != nil {
			return
		}
	}
}

// playExecutor serves the function that gives its input back.
func playExecutor(ctx context.Context) error {
	end, _, err := connect(ctx, os.Getenv(urlVariable), "executor", serveEcho(echoFunction))
	if err != nil {
		return err
	}
	defer func() { _ = end() }()
	return obey(greeting{})
}

func serveEcho(id string) func(*bus.Client) error {
	return func(c *bus.Client) error {
		return c.RegisterFunction(bus.Function{ID: id, Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
			return inv.Data, nil
		}})
	}
}

// connect runs a client until the returned function is called.
func connect(ctx context.Context, url, name string, prepare func(*bus.Client) error) (func() error, *bus.Client, error) {
	client, err := bus.New(bus.Options{URL: url, Name: name, MaxConcurrentHandlers: handlers})
	if err != nil {
		return nil, nil, err
	}
	if err := prepare(client); err != nil {
		return nil, nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- client.Run(running) }()
	end := func() error {
		cancel()
		return <-ended
	}
	waiting, cancelWaiting := context.WithTimeout(ctx, ending)
	defer cancelWaiting()
	if err := client.WaitConnected(waiting); err != nil {
		_ = end()
		return nil, nil, err
	}
	return end, client, nil
}

// obey greets and then answers each line with the figures, until the input ends.
func obey(hello greeting) error {
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(hello); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now, err := ownUsage()
		if err != nil {
			return err
		}
		if err := out.Encode(now); err != nil {
			return err
		}
	}
	return nil
}

func ownUsage() (usage, error) {
	rss, err := residentMB()
	if err != nil {
		return usage{}, err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return usage{Mallocs: memory.Mallocs, RSSMB: rss, Goroutines: runtime.NumGoroutine()}, nil
}

// residentMB reads the process's resident memory.
func residentMB() (float64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var total, resident int
	if _, err := fmt.Sscan(string(text), &total, &resident); err != nil {
		return 0, err
	}
	return float64(resident) * float64(os.Getpagesize()) / (1 << 20), nil
}
