package engine_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// bystanders are two workers that get on with each other whatever others do.
type bystanders struct {
	engine        *engine.Engine
	owner, caller *peer
	census        map[string]int
	goroutines    int
}

func newBystanders(t *testing.T, adjust ...func(*engine.Config)) *bystanders {
	t.Helper()
	e := startEngine(t, adjust...)
	b := &bystanders{engine: e, owner: connect(t, e, "owner"), caller: connect(t, e, "caller")}
	b.owner.register("good::echo")
	b.owner.serve("good::echo", echo)
	b.unaffected(t)
	b.census, b.goroutines = e.Census(), runtime.NumGoroutine()
	return b
}

// unaffected makes a call and waits for its answer.
func (b *bystanders) unaffected(t *testing.T) {
	t.Helper()
	var got map[string]any
	parse(t, b.caller.call("good::echo", map[string]int{"n": 7}).Result, &got)
	if got["n"] != 7.0 {
		t.Errorf("a bystander's call answers %v", got)
	}
}

// nothingLeft waits until the engine remembers nothing of what came and went.
func (b *bystanders) nothingLeft(t *testing.T) {
	t.Helper()
	b.unaffected(t)
	var diff string
	deadline := time.Now().Add(patience)
	eventually(t, "everything to be gone", func() bool {
		diff = cmp.Diff(b.census, b.engine.Census())
		if diff == "" && runtime.NumGoroutine() <= b.goroutines {
			return true
		}
		if time.Now().After(deadline.Add(-time.Second)) {
			t.Fatalf("left over: %d goroutines, then %d; census (-before +after):\n%s", b.goroutines, runtime.NumGoroutine(), diff)
		}
		return false
	})
}

// gone closes a connection without a word.
func (p *peer) gone() {
	_ = p.socket.CloseNow()
	p.ended()
}

// badFrames do not decode, or say nothing that can be acted on. Each is
// dropped, without an answer (contracts/iii-bus.md §1.2).
var badFrames = []string{
	"", " \n", "x", "{", "}", "[]", "null", "7", `"text"`, `{}`, `{"type":null}`, `{"type":7}`, `{"type":"nope"}`,
	`{"type":"invokefunction"}`, `{"type":"invokefunction","function_id":7}`, `{"type":"invokefunction","function_id":null,"data":{}}`,
	`{"type":"invokefunction","invocation_id":"no-uuid","function_id":"good::echo","data":{}}`,
	`{"type":"invokefunction","function_id":"f","data":{},"action":"void"}`,
	`{"type":"invokefunction","function_id":"f","data":{},"namespace":[]}`,
	`{"type":"invokefunction","function_id":"f","data":{}}{"type":"ping"}`,
	`{"type":"invocationresult","function_id":"f"}`, `{"type":"invocationresult","invocation_id":[],"function_id":"f"}`,
	`{"type":"invocationresult","invocation_id":"` + uuid.NewString() + `","function_id":"good::echo","result":1}`,
	`{"type":"invocationresult","invocation_id":"` + uuid.NewString() + `","function_id":"f","error":"text"}`,
	`{"type":"registerfunction"}`, `{"type":"registerfunction","id":{}}`, `{"type":"unregisterfunction","id":"absent"}`,
	`{"type":"registertriggertype","id":1}`, `{"type":"registertrigger","id":"t"}`, `{"type":"registertrigger","id":"t","trigger_type":1,"function_id":"f"}`,
	`{"type":"unregistertrigger","id":"absent"}`, `{"type":"triggerregistrationresult","id":"absent","trigger_type":"x","function_id":"f"}`,
	`{"type":"triggerregistrationresult","id":"t","error":7}`, `{"type":"reattach"}`,
	`{"type":"reattach","previous_worker_id":"` + uuid.NewString() + `","reattach_token":"x"}`, `{"type":"unregistertriggertype","id":"x"}`,
	`{"type":"workerregistered","worker_id":"x"}`, `{"type":"registrationrejected","code":"x"}`, `{"type":"pong"}`, `{"type":"registerservice","id":"s"}`,
	`{"type":"error","error":{"code":"x","message":"y"}}`, "{\"type\":\"ping\",\"x\":\"\xff\"}", strings.Repeat("[", 20_000),
	`{"type":"invokefunction","function_id":"f","data":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
}

func TestEngine_undecodableFramesAreDropped(t *testing.T) {
	b := newBystanders(t)
	bad := connect(t, b.engine, "bad")
	for i, frame := range badFrames {
		kind := websocket.MessageText
		if frame == "" || strings.ContainsRune(frame, '\xff') || i%2 == 1 {
			// Binary frames are tried as messages as well.
			kind = websocket.MessageBinary
		}
		if err := bad.socket.Write(t.Context(), kind, []byte(frame)); err != nil {
			t.Fatalf("after %q: %v", frame, err)
		}
	}
	bad.sendText(`{"type":"ping"}`)
	if first := next[protocol.Message](bad); first.MessageType() != protocol.TypePong {
		t.Errorf("the engine answered with a %s", first.MessageType())
	}
	bad.gone()
	b.nothingLeft(t)
}

func TestEngine_textThatIsNoTextEndsOnlyItsConnection(t *testing.T) {
	b := newBystanders(t)
	bad := connect(t, b.engine, "bad")
	if err := bad.socket.Write(t.Context(), websocket.MessageText, []byte("{\"type\":\"ping\",\"x\":\"\xff\"}")); err != nil {
		t.Fatal(err)
	}
	// The frame is dropped or the connection is: both keep bystanders whole.
	bad.gone()
	b.nothingLeft(t)
}

func TestEngine_largestMessage(t *testing.T) {
	b := newBystanders(t)
	sender := connect(t, b.engine, "sender")
	head, tail := `{"type":"invokefunction","invocation_id":"`+uuid.NewString()+`","function_id":"publish","data":{"topic":"x","data":"`, `"}}`
	room := engine.MaxMessageBytes - len(head) - len(tail)
	sender.sendText(head + strings.Repeat("x", room) + tail)
	if got := next[*protocol.InvocationResult](sender); got.Error != nil {
		t.Errorf("a message of the largest size is refused: %+v", got.Error)
	}
	sender.gone()
	b.nothingLeft(t)
}

func TestEngine_duplicateInvocationIDs(t *testing.T) {
	b := newBystanders(t)
	executor, caller, thief := connect(t, b.engine, "executor"), connect(t, b.engine, "first"), connect(t, b.engine, "second")
	executor.register("slow::f")
	id := caller.start("slow::f", map[string]any{})
	asked := next[*protocol.InvokeFunction](executor)
	for _, again := range []*peer{caller, thief} {
		again.send(&protocol.InvokeFunction{InvocationID: id, FunctionID: "slow::f", Data: raw(map[string]any{})})
		if got := codeOf(again.answerTo(id)); got != protocol.CodeInvocationError {
			t.Errorf("a second use of an id: code %q", got)
		}
	}
	// Nobody but the executor may answer.
	thief.send(&protocol.InvocationResult{InvocationID: id, FunctionID: "slow::f", Result: raw("forged")})
	thief.call(protocol.FunctionFunctionsList, nil)
	executor.send(&protocol.InvocationResult{InvocationID: asked.InvocationID, FunctionID: "slow::f", Result: raw("true")})
	if got := string(caller.answerTo(id).Result); got != `"true"` {
		t.Errorf("the first call got %s", got)
	}
	for _, p := range []*peer{executor, caller, thief} {
		p.gone()
	}
	b.nothingLeft(t)
}

func TestEngine_stolenReattachTokens(t *testing.T) {
	b := newBystanders(t)
	thief := dial(t, b.engine.URL("workers"), nil)
	thief.greeted()
	for _, m := range []*protocol.Reattach{
		{PreviousWorkerID: b.owner.id}, {PreviousWorkerID: b.owner.id, ReattachToken: thief.token},
		{PreviousWorkerID: b.owner.id, ReattachToken: b.caller.token}, {PreviousWorkerID: thief.id, ReattachToken: thief.token},
		{PreviousWorkerID: uuid.NewString(), ReattachToken: b.owner.token},
	} {
		thief.send(m)
	}
	thief.call(protocol.FunctionFunctionsList, nil)
	b.unaffected(t)
	thief.gone()
	b.nothingLeft(t)
}

func TestEngine_workersThatDieMidCall(t *testing.T) {
	b := newBystanders(t)
	for i := range 20 {
		executor, caller := connect(t, b.engine, fmt.Sprint("executor", i)), connect(t, b.engine, fmt.Sprint("asker", i))
		slow := fmt.Sprint("slow::", i)
		executor.register(slow)
		id := caller.start(slow, map[string]any{})
		next[*protocol.InvokeFunction](executor)
		second := caller.start(slow, map[string]any{})
		next[*protocol.InvokeFunction](executor)
		executor.gone()
		for _, call := range []string{id, second} {
			if got := codeOf(caller.answerTo(call)); got != protocol.CodeInvocationStopped {
				t.Errorf("code %q", got)
			}
		}
		caller.gone()
	}
	b.nothingLeft(t)
	for i := range 20 {
		executor, caller := connect(t, b.engine, fmt.Sprint("executor", i)), connect(t, b.engine, fmt.Sprint("asker", i))
		slow := fmt.Sprint("slow::", i)
		executor.register(slow)
		caller.start(slow, map[string]any{})
		asked := next[*protocol.InvokeFunction](executor)
		caller.gone()
		eventually(t, "the caller to be forgotten", func() bool { return b.engine.Census()["pending calls"] == 0 })
		executor.send(&protocol.InvocationResult{InvocationID: asked.InvocationID, FunctionID: slow})
		executor.gone()
	}
	b.nothingLeft(t)
}

func TestEngine_workersThatDieWithRegistrations(t *testing.T) {
	b := newBystanders(t, withHTTP)
	for i := range 10 {
		p := connect(t, b.engine, "busy")
		p.register("busy::f")
		p.provide("mailbox")
		p.bind("t-mail", "mailbox", "busy::f", map[string]any{})
		p.bind("t-parked", "absent", "busy::f", map[string]any{})
		p.bind("t-sub", "subscribe", "busy::f", map[string]any{"topic": fmt.Sprint(i)})
		p.bind("t-state", "state", "busy::f", map[string]any{})
		p.bind("t-cron", "cron", "busy::f", map[string]any{"expression": "0 0 0 1 1 *"})
		p.bind("t-queue", "durable:subscriber", "busy::f", map[string]any{"topic": fmt.Sprint(i)})
		p.bind("t-http", "http", "busy::f", map[string]any{"api_path": fmt.Sprint("/", i)})
		p.bind("t-workers", "engine::workers-available", "busy::f", map[string]any{})
		p.call(protocol.FunctionFunctionsList, nil)
		p.gone()
		b.nothingLeft(t)
	}
}

// TestEngine_slowReader lets a worker fall behind until the engine gives it up.
func TestEngine_slowReader(t *testing.T) {
	b := newBystanders(t, func(c *engine.Config) { c.WriteTimeout = 300 * time.Millisecond })
	slow := silentWorker(t, b.engine)
	slow.write(t, `{"type":"invokefunction","function_id":"engine::workers::register","data":{"name":"slow","pid":1},"action":{"type":"void"}}`)
	slow.write(t, `{"type":"registerfunction","id":"slow::f"}`)
	eventually(t, "the slow worker's function", func() bool {
		return codeOf(b.caller.call(protocol.FunctionFunctionsInfo, map[string]any{"function_id": "slow::f"})) == ""
	})
	pusher := connect(t, b.engine, "pusher")
	data := strings.Repeat("x", 1<<20)
	var calls []string
	for range 20 {
		calls = append(calls, pusher.start("slow::f", data))
		b.unaffected(t)
	}
	for _, id := range calls {
		if got := codeOf(pusher.answerTo(id)); got != protocol.CodeInvocationStopped && got != protocol.CodeFunctionNotFound {
			t.Errorf("code %q", got)
		}
	}
	pusher.gone()
	_ = slow.conn.Close()
	b.nothingLeft(t)
}

// TestEngine_callerThatDoesNotRead must not hold up the worker it calls.
func TestEngine_callerThatDoesNotRead(t *testing.T) {
	b := newBystanders(t, func(c *engine.Config) { c.WriteTimeout = 300 * time.Millisecond })
	slow := silentWorker(t, b.engine)
	data := strings.Repeat("x", 1<<20)
	for range 20 {
		frame := fmt.Sprintf(`{"type":"invokefunction","invocation_id":%q,"function_id":"good::echo","data":{"x":%q}}`, uuid.NewString(), data)
		if slow.tryWrite(frame) != nil {
			break
		}
		b.unaffected(t)
	}
	eventually(t, "the engine to hang up", func() bool { return slow.tryWrite(`{"type":"pong"}`) != nil })
	_ = slow.conn.Close()
	b.nothingLeft(t)
}

func TestEngine_channelEndsThatDie(t *testing.T) {
	b := newBystanders(t)
	for _, first := range []string{"writer", "reader"} {
		pair := b.caller.channel(4)
		writer, reader := mustDialChannel(t, b.engine, pair.Writer), mustDialChannel(t, b.engine, pair.Reader)
		if err := writer.Write(t.Context(), websocket.MessageBinary, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := reader.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends := []*websocket.Conn{writer, reader}
		if first == "reader" {
			ends = []*websocket.Conn{reader, writer}
		}
		for _, end := range ends {
			_ = end.CloseNow()
		}
	}
	b.nothingLeft(t)
}

func TestEngine_hostileHTTP(t *testing.T) {
	b := newBystanders(t, withHTTP)
	p := connect(t, b.engine, "web")
	p.register("web::f")
	p.serve("web::f", answers(`{"status_code":200,"headers":{"a\nb":"c","x":"y\r\nz: 1"},"body":1}`))
	p.route("t1", "web::f", map[string]any{"api_path": "/x", "http_method": "POST"})
	for name, body := range map[string]string{
		"JSON that is no text": "\"\xff\"", "deep JSON": strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "no JSON": "{",
	} {
		status, _, _ := exchangeHTTP(t, "POST", b.engine.HTTPURL()+"/x", "application/json", body)
		if status != 400 {
			t.Errorf("%s: status %d", name, status)
		}
	}
	if _, _, header := exchangeHTTP(t, "POST", b.engine.HTTPURL()+"/x", "application/json", "{}"); header.Get("Z") != "" {
		t.Error("a header smuggled in another one")
	}
	p.gone()
	b.nothingLeft(t)
}
