package bus

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// patience bounds every wait of a test; it passes only when something is wrong.
const patience = time.Minute

// testEngine accepts connections and leaves all else to the test.
type testEngine struct {
	server *httptest.Server
	peers  chan *peer
}

// peer is the engine's side of one connection.
type peer struct {
	t      *testing.T
	conn   *websocket.Conn
	frames chan protocol.Message
	ctx    context.Context
}

func newTestEngine(t *testing.T) *testEngine {
	t.Helper()
	checkLeaks(t)
	e := &testEngine{peers: make(chan *peer, 16)}
	ctx, cancel := context.WithCancel(context.Background())
	e.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		conn.SetReadLimit(-1)
		p := &peer{t: t, conn: conn, frames: make(chan protocol.Message, 1024), ctx: ctx}
		e.peers <- p
		p.read()
	}))
	t.Cleanup(func() {
		cancel()
		e.server.Close()
	})
	return e
}

func (e *testEngine) url() string { return "ws" + strings.TrimPrefix(e.server.URL, "http") }

// accept waits for the next connection.
func (e *testEngine) accept(t *testing.T) *peer {
	t.Helper()
	return receive(t, e.peers)
}

func (p *peer) read() {
	defer close(p.frames)
	for {
		_, frame, err := p.conn.Read(p.ctx)
		if err != nil {
			return
		}
		msg, err := protocol.Decode(frame)
		if err != nil {
			p.t.Errorf("the client sent an undecodable frame: %v", err)
			return
		}
		p.frames <- msg
	}
}

func (p *peer) send(msg protocol.Message) {
	p.t.Helper()
	frame, err := protocol.Encode(msg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.sendRaw(websocket.MessageText, frame)
}

func (p *peer) sendRaw(kind websocket.MessageType, frame []byte) {
	p.t.Helper()
	if err := p.conn.Write(p.ctx, kind, frame); err != nil {
		p.t.Fatalf("writing to the client: %v", err)
	}
}

// drop cuts the connection without a close frame.
func (p *peer) drop() { _ = p.conn.CloseNow() }

// next is the client's next frame, which must be of type M.
func next[M protocol.Message](p *peer) M {
	p.t.Helper()
	msg := receive(p.t, p.frames)
	typed, ok := msg.(M)
	if !ok {
		p.t.Fatalf("the client sent %#v, want a %T", msg, typed)
	}
	return typed
}

// admit welcomes the worker and accepts its metadata, which must be the first
// frame.
func (p *peer) admit(workerID string) *protocol.InvokeFunction {
	p.t.Helper()
	p.send(&protocol.WorkerRegistered{WorkerID: workerID, ReattachToken: "token-" + workerID})
	metadata := next[*protocol.InvokeFunction](p)
	if metadata.FunctionID != protocol.FunctionWorkersRegister {
		p.t.Fatalf("first call is %s, want the worker's metadata", metadata.FunctionID)
	}
	p.respond(metadata, `{"success":true}`)
	return metadata
}

func (p *peer) respond(call *protocol.InvokeFunction, result string) {
	p.t.Helper()
	p.send(&protocol.InvocationResult{
		InvocationID: call.InvocationID,
		FunctionID:   call.FunctionID,
		Result:       json.RawMessage(result),
	})
}

// invoke calls a function of the client and returns the frame that answers.
func (p *peer) invoke(id, function, data string) *protocol.InvocationResult {
	p.t.Helper()
	p.send(&protocol.InvokeFunction{InvocationID: id, FunctionID: function, Data: json.RawMessage(data)})
	return next[*protocol.InvocationResult](p)
}

// running is a client whose Run the test ends.
type running struct {
	*Client
	events chan Event
	cancel context.CancelFunc
	done   chan error
}

var testTimers = timers{
	handshake: patience,
	ping:      patience,
	silence:   10 * patience,
	farewell:  time.Second,
	binding:   patience,
}

// start runs a client against the engine. set changes its options.
func start(t *testing.T, e *testEngine, set func(*Options), prepare ...func(*Client)) *running {
	t.Helper()
	options := Options{
		URL:     e.url(),
		Name:    "tester",
		Backoff: Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond},
		timers:  testTimers,
	}
	if set != nil {
		set(&options)
	}
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Client: client, events: make(chan Event, 256), done: make(chan error, 1)}
	client.Subscribe(func(event Event) { r.events <- event })
	for _, f := range prepare {
		f(client)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.done <- client.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		receiveClosed(t, ended)
	})
	return r
}

// startAdmitted runs a client and lets the engine accept it.
func startAdmitted(t *testing.T, set func(*Options), prepare ...func(*Client)) (*running, *peer, *testEngine) {
	t.Helper()
	e := newTestEngine(t)
	r := start(t, e, set, prepare...)
	p := e.accept(t)
	p.admit("w1")
	r.await(t, Connected)
	return r, p, e
}

// await skips to the next event of a kind.
func (r *running) await(t *testing.T, kind EventKind) Event {
	t.Helper()
	for {
		if event := receive(t, r.events); event.Kind == kind {
			return event
		}
	}
}

// wait ends the wait for Run.
func (r *running) wait(t *testing.T) error {
	t.Helper()
	return receive(t, r.done)
}

func receive[T any](t *testing.T, values <-chan T) T {
	t.Helper()
	select {
	case value, ok := <-values:
		if !ok {
			t.Fatal("channel closed while waiting for a value")
		}
		return value
	case <-time.After(patience):
		t.Fatal("waited in vain")
	}
	panic("unreachable")
}

func receiveClosed[T any](t *testing.T, done <-chan T) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("waited in vain for an end")
	}
}

// checkLeaks fails the test if a goroutine of this package or of the websocket
// library outlives it. Call it first: cleanups run in reverse.
func checkLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		deadline := time.Now().Add(patience)
		for {
			leaked := leakedGoroutines()
			if len(leaked) == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("%d goroutines leaked:\n%s", len(leaked), strings.Join(leaked, "\n\n"))
				return
			}
			<-time.After(2 * time.Millisecond)
		}
	})
}

func leakedGoroutines() []string {
	buffer := make([]byte, 1<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var leaked []string
	// The first is the one that asks.
	for _, stack := range strings.Split(string(buffer), "\n\n")[1:] {
		ours := strings.Contains(stack, "sandbox-operator/bus.") || strings.Contains(stack, "coder/websocket")
		// The runner of this test waits in its parent.
		if ours && !strings.Contains(stack, "testing.(*T).Run") {
			leaked = append(leaked, stack)
		}
	}
	return leaked
}
