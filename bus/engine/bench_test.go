package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// BenchmarkEngine_call measures calls from one client to another through an
// engine, with different numbers in flight and of registered functions.
func BenchmarkEngine_call(b *testing.B) {
	for _, functions := range []int{10, 10_000} {
		for _, inFlight := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("functions=%d/inflight=%d", functions, inFlight), func(b *testing.B) {
				benchmarkCalls(b, functions, inFlight)
			})
		}
	}
}

func benchmarkCalls(b *testing.B, functions, inFlight int) {
	e := benchmarkEngine(b)
	server, caller := benchmarkClient(b, e, "server"), benchmarkClient(b, e, "caller")
	registerMany(b, server, functions)
	call := bus.Call{FunctionID: "bench::0", Data: json.RawMessage(`{"n":1}`)}
	waitForFunction(b, caller, fmt.Sprintf("bench::%d", functions-1))
	b.ReportAllocs()
	b.ResetTimer()
	var callers sync.WaitGroup
	for share := range inFlight {
		callers.Go(func() {
			for i := share; i < b.N; i += inFlight {
				if _, err := caller.Call(b.Context(), call); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func registerMany(b *testing.B, server *bus.Client, functions int) {
	for i := range functions {
		err := server.RegisterFunction(bus.Function{
			ID:      fmt.Sprintf("bench::%d", i),
			Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) { return inv.Data, nil },
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// waitForFunction calls until the function answers: registrations of one
// connection are handled in order, so that those before it are there too.
func waitForFunction(b *testing.B, caller *bus.Client, id string) {
	for {
		_, err := caller.Call(b.Context(), bus.Call{FunctionID: id, Data: json.RawMessage(`{"n":1}`)})
		if err == nil {
			return
		}
		if b.Context().Err() != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkEngine(b *testing.B) *engine.Engine {
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			b.Error(err)
		}
	})
	return e
}

func benchmarkClient(b *testing.B, e *engine.Engine, name string) *bus.Client {
	c, err := bus.New(bus.Options{URL: e.URL("workers"), Name: name, MaxConcurrentHandlers: 1024})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	if err := c.WaitConnected(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkBareSocket is the floor: one round trip of a frame of the same size
// over a socket with nothing behind it.
func BenchmarkBareSocket(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	}))
	defer server.Close()
	socket, _, err := websocket.Dial(b.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = socket.CloseNow() }()
	frame := []byte(`{"type":"invokefunction","invocation_id":"0e0a3d92-3c55-47b6-8a1f-2f7f9f0b6d10","function_id":"bench::0","data":{"n":1}}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := socket.Write(b.Context(), websocket.MessageText, frame); err != nil {
			b.Fatal(err)
		}
		if _, _, err := socket.Read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
