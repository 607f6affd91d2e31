package bus

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func registerEverything(t *testing.T) func(*Client) {
	return func(c *Client) {
		t.Helper()
		err := errors.Join(
			c.RegisterTrigger(Trigger{ID: "t1", Type: "cron", FunctionID: "a::f"}),
			c.RegisterFunction(Function{ID: "b::f", Handler: echo}),
			c.RegisterFunction(Function{ID: "a::f", Handler: echo}),
			c.RegisterTriggerType(TriggerType{ID: "mail", Register: acceptAny}),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func echo(_ context.Context, inv Invocation) (json.RawMessage, error) { return inv.Data, nil }

func acceptAny(context.Context, Binding) error { return nil }

func expectReplay(p *peer) {
	p.t.Helper()
	got := []string{
		next[*protocol.RegisterTriggerType](p).ID,
		next[*protocol.RegisterFunction](p).ID,
		next[*protocol.RegisterFunction](p).ID,
		next[*protocol.RegisterTrigger](p).ID,
	}
	if diff := cmp.Diff([]string{"mail", "b::f", "a::f", "t1"}, got); diff != "" {
		p.t.Errorf("replayed registrations (-want +got):\n%s", diff)
	}
}

func TestClient_connects(t *testing.T) {
	r, p, e := startAdmitted(t, nil, registerEverything(t))
	expectReplay(p)
	if err := r.WaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.WorkerID() != "w1" || !r.Connected() {
		t.Errorf("worker id %q, connected %t", r.WorkerID(), r.Connected())
	}

	p.drop()
	if event := r.await(t, Disconnected); event.Err == nil {
		t.Error("a dropped connection has no cause")
	}
	second := e.accept(t)
	reattach := next[*protocol.Reattach](second)
	if reattach.PreviousWorkerID != "w1" || reattach.ReattachToken != "token-w1" {
		t.Error("the second connection does not reattach with the pair of the first")
	}
	second.admit("w2")
	expectReplay(second)
	r.await(t, Connected)
	if r.Reattach() != (ReattachPair{WorkerID: "w2", Token: "token-w2"}) {
		t.Error("the pair is not that of the second connection")
	}
}

func TestClient_announcesItself(t *testing.T) {
	e := newTestEngine(t)
	start(t, e, func(o *Options) { o.Description = "for tests"; o.Namespace = "shop" })
	call := e.accept(t).admit("w1")
	var got workerMetadata
	if err := json.Unmarshal(call.Data, &got); err != nil {
		t.Fatal(err)
	}
	if got.PID <= 0 || got.OS == "" || got.Version == "" {
		t.Errorf("metadata lacks pid, os or version: %+v", got)
	}
	want := workerMetadata{
		Runtime: "go", Version: got.Version, OS: got.OS, PID: got.PID,
		Name: "tester", Description: "for tests", Namespace: "shop",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestClient_reattachesForAFormerProcess(t *testing.T) {
	e := newTestEngine(t)
	stored := ReattachPair{WorkerID: "old", Token: "old-token"}
	start(t, e, func(o *Options) { o.Reattach = stored })
	got := next[*protocol.Reattach](e.accept(t))
	if got.PreviousWorkerID != stored.WorkerID || got.ReattachToken != stored.Token {
		t.Error("the first frame is not the stored pair")
	}
}

func rejectName(p *peer) {
	p.t.Helper()
	p.send(&protocol.WorkerRegistered{WorkerID: "refused", ReattachToken: "refused-token"})
	p.send(&protocol.RegistrationRejected{
		Code: protocol.CodeWorkerConflict, Namespace: "default", WorkerName: "tester", OwnerWorkerID: "other",
	})
}

func TestClient_takenNameIsFatal(t *testing.T) {
	e := newTestEngine(t)
	r := start(t, e, nil)
	rejectName(e.accept(t))
	var rejected *RejectedError
	if err := r.wait(t); !errors.As(err, &rejected) || rejected.OwnerWorkerID != "other" {
		t.Fatalf("Run: %v, want a *RejectedError with the owner", err)
	}
	if err := r.WaitConnected(t.Context()); !errors.As(err, &rejected) {
		t.Errorf("WaitConnected: %v, want the rejection", err)
	}
	if event := r.await(t, WorkerRejected); event.OwnerWorkerID != "other" {
		t.Errorf("event names owner %q", event.OwnerWorkerID)
	}
}

func TestClient_takenNameIsRetried(t *testing.T) {
	e := newTestEngine(t)
	stored := ReattachPair{WorkerID: "old", Token: "old-token"}
	r := start(t, e, func(o *Options) { o.RetryNameConflict, o.Reattach = true, stored })
	for range 2 {
		p := e.accept(t)
		if next[*protocol.Reattach](p).ReattachToken != stored.Token {
			t.Fatal("a refused connection replaced the stored pair")
		}
		rejectName(p)
		r.await(t, WorkerRejected)
		if r.Reattach() != stored {
			t.Fatal("a refused connection replaced the stored pair")
		}
	}
	p := e.accept(t)
	next[*protocol.Reattach](p)
	p.admit("w1")
	if event := receive(t, r.events); event.Kind != Connected {
		t.Errorf("event %s, want Connected and none before it", event.Kind)
	}
}

func TestClient_failedAuthenticationIsRetried(t *testing.T) {
	e := newTestEngine(t)
	r := start(t, e, nil)
	p := e.accept(t)
	p.send(&protocol.Error{Error: protocol.ErrorBody{Code: protocol.CodeAuthError, Message: "token rejected"}})
	if event := r.await(t, WorkerRejected); RemoteCode(event.Err) != protocol.CodeAuthError {
		t.Errorf("event has %v, want AUTH_ERROR", event.Err)
	}
	e.accept(t).admit("w1")
	r.await(t, Connected)
}

func TestClient_failedMetadataIsRetried(t *testing.T) {
	e := newTestEngine(t)
	r := start(t, e, nil)
	p := e.accept(t)
	p.send(&protocol.WorkerRegistered{WorkerID: "w1", ReattachToken: "token-w1"})
	p.send(failure(next[*protocol.InvokeFunction](p), protocol.CodeInvalidNamespace, "blank"))
	second := e.accept(t)
	next[*protocol.Reattach](second)
	second.admit("w2")
	r.await(t, Connected)
}

func TestClient_unwelcomingEngineIsLeft(t *testing.T) {
	e := newTestEngine(t)
	start(t, e, func(o *Options) { o.timers.handshake = 50 * time.Millisecond })
	p := e.accept(t)
	next[*protocol.InvokeFunction](p)
	// The client gives up and comes again.
	receiveClosedFrames(t, p)
	e.accept(t)
}

// receiveClosedFrames waits until the client has left the connection.
func receiveClosedFrames(t *testing.T, p *peer) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case _, ok := <-p.frames:
			if !ok {
				return
			}
		case <-deadline:
			t.Fatal("the client stays on the connection")
		}
	}
}

func TestClient_silentEngineIsLeft(t *testing.T) {
	checkLeaks(t)
	silent := make(chan struct{}, 16)
	release := make(chan struct{})
	// This engine completes the upgrade and then does not even answer pings.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		silent <- struct{}{}
		<-release
		_ = conn.CloseNow()
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	start(t, &testEngine{server: server}, func(o *Options) {
		o.timers.ping, o.timers.silence = 10*time.Millisecond, 30*time.Millisecond
	})
	receive(t, silent)
	receive(t, silent)
}

func TestClient_pingsKeepAQuietConnection(t *testing.T) {
	pings := make(chan struct{}, 1024)
	checkLeaks(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			OnPingReceived: func(context.Context, []byte) bool { pings <- struct{}{}; return true },
		})
		if err != nil {
			return
		}
		for {
			if _, _, err := conn.Read(context.Background()); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	r := start(t, &testEngine{server: server}, func(o *Options) {
		o.timers.ping, o.timers.silence = 20*time.Millisecond, 200*time.Millisecond
	})
	// Far more pings than fit into one period of silence.
	for range 30 {
		receive(t, pings)
	}
	r.cancel()
	if err := r.wait(t); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestClient_waitsForAnAbsentEngine(t *testing.T) {
	checkLeaks(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hits := make(chan struct{}, 1024)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits <- struct{}{}
		http.Error(w, "not yet", http.StatusServiceUnavailable)
	}))
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	r := start(t, &testEngine{server: server}, nil)
	for range 3 {
		receive(t, hits)
	}
	if _, err := r.Call(t.Context(), Call{FunctionID: "a::f"}); !IsNotConnected(err) {
		t.Errorf("Call: %v, want ErrNotConnected", err)
	}
	if err := r.Void(t.Context(), Call{FunctionID: "a::f"}); !IsNotConnected(err) {
		t.Errorf("Void: %v, want ErrNotConnected", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.WaitConnected(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitConnected: %v, want the context's end", err)
	}
}

func TestClient_dialErrorsHideTheURL(t *testing.T) {
	checkLeaks(t)
	// A port that was free a moment ago refuses connections.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := New(Options{URL: "ws://" + address + "/?token=s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.dialSession(t.Context())
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("dialing: %v, want an error without the token", err)
	}
}

func TestClient_runsOnce(t *testing.T) {
	r, _, _ := startAdmitted(t, nil)
	if err := r.Run(t.Context()); err == nil {
		t.Error("a second Run at the same time is accepted")
	}
}

func TestClient_garbageIsDropped(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	for _, garbage := range []string{"", "  \n", "{", "[]", "null", `{"type":"nonsense"}`, `{"type":"invokefunction"}`, "{\"type\":\"\xff\"}"} {
		p.sendRaw(websocket.MessageText, []byte(garbage))
	}
	p.sendRaw(websocket.MessageBinary, []byte{0, 1, 2, 0xff})
	p.send(&protocol.InvocationResult{InvocationID: "nobody's", Result: json.RawMessage("1")})
	// A message in a binary frame counts (contracts/iii-bus.md §1.2).
	p.sendRaw(websocket.MessageBinary, []byte(`{"type":"ping"}`))
	next[*protocol.Pong](p)
	if !r.Connected() {
		t.Error("garbage ended the connection")
	}
}
