package engine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func echo(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) { return m.Data, nil }

func TestEngine_callPassesEverythingOn(t *testing.T) {
	e := startEngine(t)
	executor, caller := connect(t, e, "executor"), connect(t, e, "caller")
	executor.register("f::x")
	id := uuid.NewString()
	caller.send(&protocol.InvokeFunction{
		InvocationID: id, FunctionID: "f::x", Data: raw(map[string]any{"a": 1, "_caller_worker_id": "forged"}),
		Metadata: raw(map[string]string{"tenant": "t"}), Traceparent: "00-aa-bb-01", Baggage: "k=v",
	})
	got := next[*protocol.InvokeFunction](executor)
	want := &protocol.InvokeFunction{
		InvocationID: id, FunctionID: "f::x", Data: json.RawMessage(`{"_caller_worker_id":"` + caller.id + `","a":1}`),
		Metadata: json.RawMessage(`{"tenant":"t"}`), Traceparent: "00-aa-bb-01", Baggage: "k=v",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("executor got (-want +got):\n%s", diff)
	}
	executor.send(&protocol.InvocationResult{
		InvocationID: id, FunctionID: "f::x", Traceparent: "00-aa-cc-01",
		Error: &protocol.ErrorBody{Code: "S211", Message: "gone", Stacktrace: "at x"},
	})
	answer := &protocol.InvocationResult{
		InvocationID: id, FunctionID: "f::x", Traceparent: "00-aa-cc-01", Baggage: "k=v",
		Error: &protocol.ErrorBody{Code: "S211", Message: "gone", Stacktrace: "at x"},
	}
	if diff := cmp.Diff(answer, caller.answerTo(id)); diff != "" {
		t.Errorf("caller got (-want +got):\n%s", diff)
	}
}

func TestEngine_voidCallHasAnIDAndNoAnswer(t *testing.T) {
	e := startEngine(t)
	executor, caller := connect(t, e, "executor"), connect(t, e, "caller")
	executor.register("f::x")
	caller.void("f::absent", nil)
	caller.void("f::x", map[string]int{"n": 1})
	got := next[*protocol.InvokeFunction](executor)
	if uuid.Validate(got.InvocationID) != nil || got.Action != nil || got.Namespace != nil {
		t.Errorf("executor got %+v", got)
	}
	executor.send(&protocol.InvocationResult{InvocationID: got.InvocationID, FunctionID: "f::x", Result: raw(1)})
	caller.send(&protocol.Ping{})
	if first := next[protocol.Message](caller); first.MessageType() != protocol.TypePong {
		t.Errorf("caller got a %s before the pong", first.MessageType())
	}
}

func withoutQueue(c *engine.Config) { c.DisableQueue = true }

func TestEngine_callErrors(t *testing.T) {
	e := startEngine(t, withoutQueue)
	caller := connect(t, e, "caller")
	blank := " "
	for name, tc := range map[string]struct {
		call     protocol.InvokeFunction
		wantCode string
	}{
		"an unknown function is not found": {protocol.InvokeFunction{FunctionID: "no::f"}, protocol.CodeFunctionNotFound},
		"a blank namespace is refused":     {protocol.InvokeFunction{FunctionID: "publish", Namespace: &blank}, protocol.CodeInvalidNamespace},
		"a built-in refuses wrong input":   {protocol.InvokeFunction{FunctionID: "publish", Data: raw("text")}, protocol.CodeDeserializationError},
		"a topic is required":              {protocol.InvokeFunction{FunctionID: "publish", Data: raw(map[string]int{})}, protocol.CodeTopicNotSet},
		"enqueueing fails closed": {protocol.InvokeFunction{
			FunctionID: "f::x", Action: &protocol.Action{Type: protocol.ActionEnqueue, Queue: "q"},
		}, protocol.CodeEnqueueError},
	} {
		t.Run(name, func(t *testing.T) {
			tc.call.InvocationID = uuid.NewString()
			caller.send(&tc.call)
			if got := codeOf(caller.answerTo(tc.call.InvocationID)); got != tc.wantCode {
				t.Errorf("code %q, want %q", got, tc.wantCode)
			}
		})
	}
}

func TestEngine_enqueueReachesTheQueueWorker(t *testing.T) {
	e := startEngine(t, withoutQueue)
	queue, caller := connect(t, e, "queue"), connect(t, e, "caller")
	queue.register("engine::queue::enqueue")
	id := uuid.NewString()
	caller.send(&protocol.InvokeFunction{
		InvocationID: id, FunctionID: "f::x", Data: raw(1), Action: &protocol.Action{Type: protocol.ActionEnqueue, Queue: "q"},
	})
	asked := next[*protocol.InvokeFunction](queue)
	var request, answer struct {
		Queue            string
		FunctionID       string `json:"function_id"`
		Data             int
		MessageReceiptID string
	}
	parse(t, asked.Data, &request)
	if request.Queue != "q" || request.FunctionID != "f::x" || request.Data != 1 {
		t.Errorf("queue got %s", asked.Data)
	}
	queue.send(&protocol.InvocationResult{InvocationID: asked.InvocationID, FunctionID: asked.FunctionID})
	parse(t, caller.answerTo(id).Result, &answer)
	if answer.MessageReceiptID == "" || answer.MessageReceiptID != request.MessageReceiptID {
		t.Errorf("receipt %q, want %q", answer.MessageReceiptID, request.MessageReceiptID)
	}
}

func TestEngine_lostExecutorStopsItsCalls(t *testing.T) {
	e := startEngine(t)
	executor, caller := connect(t, e, "executor"), connect(t, e, "caller")
	executor.register("f::x")
	id := caller.start("f::x", map[string]any{})
	next[*protocol.InvokeFunction](executor)
	_ = executor.socket.CloseNow()
	if got := codeOf(caller.answerTo(id)); got != protocol.CodeInvocationStopped {
		t.Errorf("code %q", got)
	}
	eventually(t, "the function to be gone", func() bool {
		return codeOf(caller.call("f::x", nil)) == protocol.CodeFunctionNotFound
	})
}

func TestEngine_onlyTheExecutorAnswers(t *testing.T) {
	e := startEngine(t)
	executor, caller, stranger := connect(t, e, "executor"), connect(t, e, "caller"), connect(t, e, "stranger")
	executor.register("f::x")
	id := caller.start("f::x", nil)
	next[*protocol.InvokeFunction](executor)
	stranger.send(&protocol.InvocationResult{InvocationID: id, FunctionID: "f::x", Result: raw("forged")})
	stranger.call(protocol.FunctionWorkersList, nil)
	executor.send(&protocol.InvocationResult{InvocationID: id, FunctionID: "f::x", Result: raw("true")})
	if got := string(caller.answerTo(id).Result); got != `"true"` {
		t.Errorf("result %s", got)
	}
}

// TestEngine_badFramesAreDropped checks that what is no message costs nothing
// but itself.
func TestEngine_badFramesAreDropped(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	for _, frame := range []string{
		"", "  ", "{", "[]", `{"type":"unregistertriggertype","id":"x"}`, `{"type":"invokefunction"}`,
		`{"type":"invokefunction","invocation_id":"no-uuid","function_id":"publish"}`, `{"type":7}`,
	} {
		p.sendText(frame)
	}
	for _, telemetry := range []string{"OTLP{}", "MTRC{}", "LOGS{}"} {
		if err := p.socket.Write(t.Context(), websocket.MessageBinary, []byte(telemetry)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.socket.Write(t.Context(), websocket.MessageBinary, []byte(`{"type":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	if first := next[protocol.Message](p); first.MessageType() != protocol.TypePong {
		t.Errorf("got %+v", first)
	}
	if err := p.socket.Ping(t.Context()); err != nil {
		t.Errorf("websocket ping: %v", err)
	}
}

func TestEngine_telemetryIsDiscarded(t *testing.T) {
	e := startEngine(t)
	socket, _, err := websocket.Dial(t.Context(), e.URL("workers")+"/otel", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.CloseNow() }()
	ended := socket.CloseRead(t.Context())
	if err := socket.Write(t.Context(), websocket.MessageBinary, []byte("OTLP{}")); err != nil {
		t.Fatal(err)
	}
	if err := socket.Ping(ended); err != nil {
		t.Errorf("websocket ping: %v", err)
	}
	if got := connect(t, e, "p").workerNames(); !cmp.Equal(got, []string{"p"}) {
		t.Errorf("workers %v", got)
	}
}

func TestEngine_largeMessages(t *testing.T) {
	e := startEngine(t)
	executor, caller := connect(t, e, "executor"), connect(t, e, "caller")
	executor.register("f::x")
	executor.serve("f::x", echo)
	text := strings.Repeat("x", 3<<20)
	var got struct{ Text string }
	parse(t, caller.call("f::x", map[string]string{"text": text}).Result, &got)
	if got.Text != text {
		t.Errorf("got %d bytes of %d", len(got.Text), len(text))
	}
}

// TestEngine_stuckCallerHoldsUpNobody lets a caller ask for much and read
// nothing: others are served meanwhile and the caller is dropped.
func TestEngine_stuckCallerHoldsUpNobody(t *testing.T) {
	e := startEngine(t, func(c *engine.Config) { c.WriteTimeout = 500 * time.Millisecond })
	executor, caller := connect(t, e, "executor"), connect(t, e, "caller")
	executor.register("f::big")
	big := raw(strings.Repeat("x", 2<<20))
	executor.serve("f::big", func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) { return big, nil })

	stuck, _, err := websocket.Dial(t.Context(), e.URL("workers"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stuck.CloseNow() }()
	for range 12 {
		frame, err := protocol.Encode(&protocol.InvokeFunction{InvocationID: uuid.NewString(), FunctionID: "f::big"})
		if err != nil {
			t.Fatal(err)
		}
		if err := stuck.Write(t.Context(), websocket.MessageText, frame); err != nil {
			t.Fatal(err)
		}
	}
	if got := codeOf(caller.call("f::big", nil)); got != "" {
		t.Errorf("code %q", got)
	}
	eventually(t, "the stuck caller to be dropped", func() bool {
		return stuck.Write(t.Context(), websocket.MessageText, []byte(" ")) != nil
	})
}
