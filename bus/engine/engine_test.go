package engine_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// TestEngine_closeEndsEverything closes an engine that is busy in every way;
// startEngine checks afterwards that nothing of it is left.
func TestEngine_closeEndsEverything(t *testing.T) {
	e := startEngine(t, withHTTP)
	p, silent := connect(t, e, "p"), dial(t, e.URL("workers"), nil)
	silent.send(&protocol.RegisterFunction{ID: "f::pending"})
	p.register("f::hang")
	p.route("t1", "f::hang", map[string]any{"api_path": "/hang"})
	p.bind("t2", "cron", "f::hang", map[string]string{"expression": "0 0 0 1 1 *"})
	pair := p.channel(1)
	reader := mustDialChannel(t, e, pair.Reader)
	succeeded := make(chan bool, 1)
	go func() {
		succeeded <- succeeds(t.Context(), e.HTTPURL()+"/hang")
	}()
	next[*protocol.InvokeFunction](p)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 2 {
		if err := e.Close(ctx); err != nil {
			t.Errorf("closing: %v", err)
		}
	}
	if <-succeeded {
		t.Error("the request in flight looks answered")
	}
	p.ended()
	silent.ended()
	if _, _, err := reader.Read(t.Context()); err == nil {
		t.Error("the channel is still open")
	}
	if socket, _, err := websocket.Dial(t.Context(), e.URL("workers"), nil); err == nil {
		_ = socket.CloseNow()
		t.Error("the port is still open")
	}
}

// succeeds tells whether a request gets an answer that is no error.
func succeeds(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode < http.StatusInternalServerError
}

func TestEngine_failedStartLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	e, err := engine.New(engine.Config{
		Listeners: []engine.Listener{{Name: "first", Address: "127.0.0.1:0"}, {Name: "second", Address: taken.Addr().String()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err == nil {
		t.Fatal("started on a taken port")
	}
	if socket, _, err := websocket.Dial(t.Context(), e.URL("first"), nil); err == nil {
		_ = socket.CloseNow()
		t.Error("the first listener is still open")
	}
}

func TestEngine_oversizedMessageEndsTheConnection(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	// The engine stops reading, so that sending may fail as well.
	p.sendText(string(make([]byte, engine.MaxMessageBytes+1)))
	p.ended()
}

func TestEngine_unknownListenerHasNoURL(t *testing.T) {
	e := startEngine(t)
	if got := e.URL("absent") + e.HTTPURL(); got != "" {
		t.Errorf("got %q", got)
	}
}
