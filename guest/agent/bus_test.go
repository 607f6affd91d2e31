package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// message is a bus frame, as far as these tests look at it.
type message struct {
	Type         string          `json:"type"`
	ID           string          `json:"id,omitempty"`
	InvocationID string          `json:"invocation_id,omitempty"`
	FunctionID   string          `json:"function_id,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`
	Result       json.RawMessage `json:"result,omitempty"`
	WorkerID     string          `json:"worker_id,omitempty"`
	Baggage      string          `json:"baggage,omitempty"`
}

// testBus speaks just enough of the bus for the real SDKs (contracts/iii-bus.md):
// it welcomes a worker, echoes what is called, routes calls to functions that
// the same worker registered, and never answers test::silent.
type testBus struct {
	t       *testing.T
	server  *httptest.Server
	mutex   sync.Mutex
	links   int
	closed  int
	clean   int
	workers []string
	calls   []string
	// baggage is what came with the calls that wait for an answer.
	baggage []string
	last    lastCall
}

// lastCall is the last call that waits for an answer: what came with it, and over
// which connection.
type lastCall struct {
	baggage string
	link    int
}

func (b *testBus) lastCall() lastCall {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.last
}

func newTestBus(t *testing.T) *testBus {
	t.Helper()
	bus := &testBus{t: t}
	bus.server = httptest.NewServer(http.HandlerFunc(bus.accept))
	t.Cleanup(bus.server.Close)
	return bus
}

func (b *testBus) url() string { return "ws" + strings.TrimPrefix(b.server.URL, "http") }

func (b *testBus) accept(writer http.ResponseWriter, request *http.Request) {
	link, err := websocket.Accept(writer, request, nil)
	if err != nil {
		return
	}
	defer func() { _ = link.CloseNow() }()
	link.SetReadLimit(16 << 20)
	number := 0
	b.count(func() { b.links, number = b.links+1, b.links })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b.send(ctx, link, message{Type: "workerregistered", WorkerID: "worker-1"})
	session := session{bus: b, link: link, number: number, functions: map[string]bool{}}
	for err == nil {
		err = session.serveOne(ctx)
	}
	b.count(func() {
		b.closed++
		if websocket.CloseStatus(err) != -1 {
			b.clean++
		}
	})
}

type session struct {
	bus       *testBus
	link      *websocket.Conn
	number    int
	functions map[string]bool
}

func (s *session) serveOne(ctx context.Context) error {
	_, data, err := s.link.Read(ctx)
	if err != nil {
		return err
	}
	var received message
	if err := json.Unmarshal(data, &received); err != nil {
		return err
	}
	switch received.Type {
	case "registerfunction":
		s.functions[received.ID] = true
	case "invokefunction":
		s.invoke(ctx, received)
	case "invocationresult":
		// The worker answers a call that it made itself.
		s.bus.send(ctx, s.link, message{Type: "invocationresult", InvocationID: received.InvocationID, Result: received.Result})
	}
	return nil
}

func (s *session) invoke(ctx context.Context, call message) {
	if call.FunctionID == "engine::workers::register" {
		var worker struct{ Name string }
		_ = json.Unmarshal(call.Data, &worker)
		s.bus.count(func() { s.bus.workers = append(s.bus.workers, worker.Name) })
		return
	}
	s.bus.count(func() {
		s.bus.calls = append(s.bus.calls, call.FunctionID)
		if call.InvocationID != "" {
			s.bus.baggage = append(s.bus.baggage, call.Baggage)
			s.bus.last = lastCall{baggage: call.Baggage, link: s.number}
		}
	})
	switch {
	case call.InvocationID == "" || call.FunctionID == "test::silent":
	case s.functions[call.FunctionID]:
		s.bus.send(ctx, s.link, call)
	default:
		s.bus.send(ctx, s.link, message{Type: "invocationresult", InvocationID: call.InvocationID, FunctionID: call.FunctionID, Result: call.Data})
	}
}

func (b *testBus) send(ctx context.Context, link *websocket.Conn, sent message) {
	data, err := json.Marshal(sent)
	if err != nil {
		b.t.Error(err)
		return
	}
	_ = link.Write(ctx, websocket.MessageText, data)
}

func (b *testBus) count(change func()) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	change()
}

// seen waits until every link has ended and returns what happened.
func (b *testBus) seen() (links, clean int, workers, calls []string) {
	b.t.Helper()
	eventually(b.t, "all links have ended", func() bool {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		return b.closed == b.links
	})
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.links, b.clean, b.workers, b.calls
}
