package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/cork"
)

// handshakeTimeout is the deadline for the head of a request
// (contracts/iii-bus.md §1.1).
const handshakeTimeout = 10 * time.Second

// listener is one open port with its server.
type listener struct {
	name   string
	socket net.Listener
	server *http.Server
}

func (l *listener) address() string { return l.socket.Addr().String() }

// close ends the port and the requests on it; upgraded connections end with
// the engine's context.
func (l *listener) close() { _ = l.server.Close() }

func (e *Engine) listen(ctx context.Context, port Listener, handler http.Handler) (*listener, error) {
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "tcp", port.Address)
	if err != nil {
		return nil, err
	}
	l := &listener{name: port.Name, socket: socket, server: &http.Server{
		Handler:           e.tracked(handler),
		ReadHeaderTimeout: cmp.Or(port.HandshakeTimeout, handshakeTimeout),
		BaseContext:       func(net.Listener) context.Context { return e.ctx },
		ConnContext:       withWire,
		ErrorLog:          slog.NewLogLogger(e.log.Handler(), slog.LevelWarn),
	}}
	e.tasks.start(func() {
		if err := l.server.Serve(corkedListener{socket}); !errors.Is(err, http.ErrServerClosed) {
			e.log.Error("Listener failed", "listener", port.Name, "error", err)
		}
	})
	return l, nil
}

// corkedListener accepts connections whose writes can be held together.
type corkedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l corkedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return cork.New(conn), nil
}

// wireKey finds a request's connection in its context: after the upgrade the
// WebSocket library does not give it away.
type wireKey struct{}

func withWire(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, wireKey{}, conn)
}

func wireOf(r *http.Request) *cork.Conn {
	wire, _ := r.Context().Value(wireKey{}).(*cork.Conn)
	return wire
}

// tracked counts each request as a task: the server forgets a connection once
// it is upgraded, Close must not.
func (e *Engine) tracked(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.tasks.begin() {
			http.Error(w, "engine is closing", http.StatusServiceUnavailable)
			return
		}
		defer e.tasks.end()
		handler.ServeHTTP(w, r)
	})
}

// workerHandler serves the three kinds of sockets of a worker port
// (contracts/iii-bus.md §1.1).
func (e *Engine) workerHandler(l Listener) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { e.serveWorker(w, r, l) })
	mux.HandleFunc("/otel", func(w http.ResponseWriter, r *http.Request) { e.serveTelemetry(w, r, l) })
	mux.HandleFunc("/ws/channels/{id}", e.serveChannel)
	return mux
}

// accept upgrades a request. Cross-origin pages are refused, so that no web
// page reaches a developer's engine.
func accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil, err
	}
	socket.SetReadLimit(MaxMessageBytes)
	return socket, nil
}

// serveTelemetry takes what SDKs report about themselves and discards it; they
// retry forever where the socket is refused (§1.4).
func (e *Engine) serveTelemetry(w http.ResponseWriter, r *http.Request, l Listener) {
	socket, err := accept(w, r)
	if err != nil {
		return
	}
	defer func() { _ = socket.CloseNow() }()
	if _, err := e.authenticate(r, l.Policy); err != nil {
		e.refuse(socket, err)
		return
	}
	for {
		if _, _, err := socket.Read(e.ctx); err != nil {
			return
		}
	}
}
