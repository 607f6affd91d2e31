package engine_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

func withHTTP(c *engine.Config) { c.HTTPAddress = "127.0.0.1:0" }

// startEngine runs an engine for one test and checks at its end that nothing of
// it is left.
func startEngine(t *testing.T, adjust ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	config := engine.Config{
		Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}},
		Logger:    slog.New(alarm{slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}), t}),
	}
	for _, a := range adjust {
		a(&config)
	}
	e, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
		eventually(t, "the engine's goroutines to end", func() bool { return !strings.Contains(stacks(), "bus/engine.(*") })
	})
	return e
}

// alarm fails a test when a handler panics: the HTTP server recovers and logs
// that, so that nobody else would notice.
type alarm struct {
	slog.Handler
	tb testing.TB
}

// Handle implements slog.Handler.
func (a alarm) Handle(ctx context.Context, record slog.Record) error {
	if strings.Contains(record.Message, "panic") {
		a.tb.Errorf("the engine says: %s", record.Message)
	}
	return a.Handler.Handle(ctx, record)
}

func stacks() string {
	dump := make([]byte, 4<<20)
	return string(dump[:runtime.Stack(dump, true)])
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// peer is a raw worker: what it sends is exactly what a test says.
type peer struct {
	t      *testing.T
	socket *websocket.Conn
	id     string
	token  string
	// frames are those that no handler took; closed with the connection.
	frames chan protocol.Message

	mu       sync.Mutex
	handlers map[string]handler
	// background are the functions whose handlers may wait for answers.
	background map[string]bool
	working    sync.WaitGroup
}

type handler func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody)

// dial connects without saying anything.
func dial(t *testing.T, url string, header http.Header) *peer {
	t.Helper()
	socket, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	socket.SetReadLimit(-1)
	p := &peer{t: t, socket: socket, frames: make(chan protocol.Message, 4096), handlers: map[string]handler{}, background: map[string]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.frames)
		p.read()
	}()
	t.Cleanup(func() {
		_ = socket.CloseNow()
		<-done
		p.working.Wait()
	})
	return p
}

// connect dials, takes the greeting and sends the metadata.
func connect(t *testing.T, e *engine.Engine, name string) *peer {
	t.Helper()
	p := dial(t, e.URL("workers"), nil)
	p.greeted()
	p.identify(name)
	return p
}

func (p *peer) greeted() {
	p.t.Helper()
	hello := next[*protocol.WorkerRegistered](p)
	p.id, p.token = hello.WorkerID, hello.ReattachToken
}

func (p *peer) identify(name string) {
	p.t.Helper()
	p.void(protocol.FunctionWorkersRegister, map[string]any{"runtime": "go", "name": name, "pid": 1, "namespace": nil})
}

func (p *peer) read() {
	for {
		_, frame, err := p.socket.Read(context.Background())
		if err != nil {
			return
		}
		msg, err := protocol.Decode(frame)
		if err != nil {
			p.t.Errorf("engine sent %q: %v", frame, err)
			return
		}
		if !p.handled(msg) {
			p.frames <- msg
		}
	}
}

func (p *peer) handled(msg protocol.Message) bool {
	m, ok := msg.(*protocol.InvokeFunction)
	if !ok {
		return false
	}
	p.mu.Lock()
	h, background := p.handlers[m.FunctionID], p.background[m.FunctionID]
	p.mu.Unlock()
	answer := func() {
		result, failed := h(m)
		p.send(&protocol.InvocationResult{InvocationID: m.InvocationID, FunctionID: m.FunctionID, Result: result, Error: failed})
	}
	switch {
	case h == nil:
		return false
	case background:
		p.working.Go(answer)
	default:
		answer()
	}
	return true
}

// serveCalling is serve for a handler that calls other functions.
func (p *peer) serveCalling(functionID string, h handler) {
	p.mu.Lock()
	p.background[functionID] = true
	p.mu.Unlock()
	p.serve(functionID, h)
}

// serve answers calls of a function from now on.
func (p *peer) serve(functionID string, h handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handlers[functionID] = h
}

func (p *peer) send(msg protocol.Message) {
	frame, err := protocol.Encode(msg)
	if err != nil {
		p.t.Error(err)
		return
	}
	p.sendText(string(frame))
}

func (p *peer) sendText(frame string) {
	if err := p.socket.Write(context.Background(), websocket.MessageText, []byte(frame)); err != nil {
		p.t.Logf("sending: %v", err)
	}
}

// register publishes a function and waits until the engine lists it.
func (p *peer) register(functionID string) {
	p.t.Helper()
	p.send(&protocol.RegisterFunction{ID: functionID})
	eventually(p.t, functionID+" to be registered", func() bool {
		return p.call(protocol.FunctionFunctionsInfo, map[string]any{"function_id": functionID}).Error == nil
	})
}

func (p *peer) void(functionID string, data any) {
	p.t.Helper()
	p.send(&protocol.InvokeFunction{FunctionID: functionID, Data: raw(data), Action: &protocol.Action{Type: protocol.ActionVoid}})
}

// start sends a call and returns its id.
func (p *peer) start(functionID string, data any) string {
	id := uuid.NewString()
	p.send(&protocol.InvokeFunction{InvocationID: id, FunctionID: functionID, Data: raw(data)})
	return id
}

// call waits for the answer; other frames stay where they are.
func (p *peer) call(functionID string, data any) *protocol.InvocationResult {
	p.t.Helper()
	return p.answerTo(p.start(functionID, data))
}

func (p *peer) answerTo(id string) *protocol.InvocationResult {
	p.t.Helper()
	return nextWhere(p, func(m *protocol.InvocationResult) bool { return m.InvocationID == id })
}

// next waits for the next frame of a type.
func next[M protocol.Message](p *peer) M {
	p.t.Helper()
	return nextWhere(p, func(M) bool { return true })
}

// nextWhere waits for a frame and puts the others back.
func nextWhere[M protocol.Message](p *peer, wanted func(M) bool) M {
	p.t.Helper()
	deadline := time.After(patience)
	var others []protocol.Message
	defer func() {
		for _, m := range others {
			p.frames <- m
		}
	}()
	for {
		select {
		case msg, open := <-p.frames:
			if !open {
				// The frames that were for others have nowhere to go back to.
				others = nil
				p.t.Fatalf("connection ended while waiting for %T", *new(M))
			}
			if m, ok := msg.(M); ok && wanted(m) {
				return m
			}
			others = append(others, msg)
		case <-deadline:
			p.t.Fatalf("gave up waiting for %T; other frames: %+v", *new(M), others)
		}
	}
}

// ended waits until the engine has closed the connection.
func (p *peer) ended() {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case _, open := <-p.frames:
			if !open {
				return
			}
		case <-deadline:
			p.t.Fatal("the connection stays open")
		}
	}
}

func (p *peer) workerNames() []string {
	p.t.Helper()
	var list struct {
		Workers []struct {
			Name string `json:"name"`
		} `json:"workers"`
	}
	parse(p.t, p.call(protocol.FunctionWorkersList, nil).Result, &list)
	names := []string{}
	for _, w := range list.Workers {
		names = append(names, w.Name)
	}
	return names
}

// triggerIDs lists the active triggers of a type.
func (p *peer) triggerIDs(triggerType string) []string {
	p.t.Helper()
	var list struct {
		Triggers []struct {
			ID string `json:"id"`
		} `json:"registered_triggers"`
	}
	parse(p.t, p.call(protocol.FunctionRegisteredList, map[string]any{"trigger_type": triggerType}).Result, &list)
	ids := []string{}
	for _, r := range list.Triggers {
		ids = append(ids, r.ID)
	}
	return ids
}

func raw(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

func parse(t *testing.T, text json.RawMessage, target any) {
	t.Helper()
	if err := json.Unmarshal(text, target); err != nil {
		t.Fatalf("parsing %q: %v", text, err)
	}
}

func codeOf(m *protocol.InvocationResult) string {
	if m.Error == nil {
		return ""
	}
	return m.Error.Code
}

// startIn is start in a bus namespace, without data.
func (p *peer) startIn(namespace, functionID string) string {
	id := uuid.NewString()
	p.send(&protocol.InvokeFunction{InvocationID: id, FunctionID: functionID, Data: raw(map[string]any{}), Namespace: &namespace})
	return id
}
