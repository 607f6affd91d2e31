package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// tap is a WebSocket proxy in front of the engine for one of its workers. It
// passes everything through and keeps a note of each call. A row may script it:
// then it answers some calls in the place of whoever serves them, or changes
// their answers.
type tap struct {
	// URL is what the worker takes for the engine.
	URL    string
	server *http.Server
	engine atomic.Pointer[string]

	mutex sync.Mutex
	// calls are in the order in which they passed.
	calls []tapped
	rules []*rule
	// open are calls whose answers a rule changes, by invocation id.
	open map[string]*rule
	// functions and triggers are what the worker registered: ids, and types.
	functions, triggers []string
}

// tapped is a call that passed.
type tapped struct {
	Function string
	Data     json.RawMessage
}

// rule scripts the calls of a function, or of all whose id begins with it if it
// ends in a star. Exactly one of answer, fault, alter and hold is set.
type rule struct {
	function string
	// having must be in the call's data; empty fits every call.
	having string
	// times is how many calls it is for; 0 means all.
	times int
	// answer is given instead.
	answer any
	// fault is given instead.
	fault *protocol.ErrorBody
	// alter changes the answer; the call passes.
	alter func(m)
	// hold delays the call until it is closed; then it passes.
	hold chan struct{}

	used atomic.Int32
}

func (r *rule) fits(call protocol.InvokeFunction) bool {
	prefix, isPrefix := strings.CutSuffix(r.function, "*")
	if call.FunctionID != r.function && (!isPrefix || !strings.HasPrefix(call.FunctionID, prefix)) {
		return false
	}
	if !strings.Contains(string(call.Data), r.having) {
		return false
	}
	used := r.used.Add(1)
	return r.times == 0 || int(used) <= r.times
}

// daemonFault is a failure as the sandbox daemon words it: one object inside the
// text of its bus client (contracts/code-runner.md §5.2).
func daemonFault(code, text string) *protocol.ErrorBody {
	body, _ := json.Marshal(m{
		"type": "scripted", "code": code, "message": text, "docs_url": "https://example.test/" + code, "fix": nil, "retryable": false,
	})
	return &protocol.ErrorBody{Code: protocol.CodeInvocationFailed, Message: "handler error: " + string(body)}
}

func startTap(ctx context.Context) (*tap, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &tap{URL: "ws://" + listener.Addr().String(), open: map[string]*rule{}}
	t.server = &http.Server{Handler: http.HandlerFunc(t.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = t.server.Serve(listener) }()
	return t, nil
}

func (t *tap) stop() error { return t.server.Close() }

// lead says where the engine is.
func (t *tap) lead(engineURL string) { t.engine.Store(&engineURL) }

func (t *tap) serve(w http.ResponseWriter, r *http.Request) {
	engine := t.engine.Load()
	if engine == nil {
		http.Error(w, "the engine is not there yet", http.StatusServiceUnavailable)
		return
	}
	// It outlives the request, which ends when the connection is taken over.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	up, response, err := websocket.Dial(ctx, *engine+r.URL.RequestURI(), &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		status := http.StatusBadGateway
		if response != nil {
			status = response.StatusCode
		}
		http.Error(w, "the engine refuses", status)
		return
	}
	defer func() { _ = up.CloseNow() }()
	down, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	defer func() { _ = down.CloseNow() }()
	up.SetReadLimit(-1)
	down.SetReadLimit(-1)
	var both sync.WaitGroup
	both.Go(func() { t.relay(ctx, down, up) })
	both.Go(func() { t.relay(ctx, up, down) })
	both.Wait()
}

// relay passes messages from one side to the other until the one closes, and
// then closes the other in the same way.
func (t *tap) relay(ctx context.Context, from, to *websocket.Conn) {
	for {
		kind, data, err := from.Read(ctx)
		if err != nil {
			passClose(to, err)
			return
		}
		if kind == websocket.MessageText {
			data = t.pass(ctx, data, from, to)
		}
		if data != nil && to.Write(ctx, kind, data) != nil {
			return
		}
	}
}

func passClose(to *websocket.Conn, err error) {
	var closed websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.StatusNoStatusRcvd {
		_ = to.Close(closed.Code, closed.Reason)
		return
	}
	_ = to.Close(websocket.StatusNormalClosure, "")
}

// pass returns the message to hand on, nil for none.
func (t *tap) pass(ctx context.Context, data []byte, from, to *websocket.Conn) []byte {
	var head struct {
		Type        protocol.Type `json:"type"`
		ID          string        `json:"id"`
		TriggerType string        `json:"trigger_type"`
	}
	if json.Unmarshal(data, &head) != nil {
		return data
	}
	switch head.Type {
	case protocol.TypeInvokeFunction:
		return t.passCall(ctx, data, from, to)
	case protocol.TypeInvocationResult:
		return t.passAnswer(data)
	case protocol.TypeRegisterFunction:
		t.remember(&t.functions, head.ID)
	case protocol.TypeRegisterTrigger:
		t.remember(&t.triggers, head.TriggerType)
	}
	return data
}

func (t *tap) remember(list *[]string, word string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	*list = append(*list, word)
}

// registered are the functions and the types of triggers that the worker
// registered so far, in order.
func (t *tap) registered() (functions, triggers []string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return slices.Clone(t.functions), slices.Clone(t.triggers)
}

func (t *tap) passCall(ctx context.Context, data []byte, from, to *websocket.Conn) []byte {
	var call protocol.InvokeFunction
	if json.Unmarshal(data, &call) != nil {
		return data
	}
	r := t.note(call)
	switch {
	case r == nil:
		return data
	case r.hold != nil:
		go func() {
			<-r.hold
			_ = to.Write(ctx, websocket.MessageText, data)
		}()
		return nil
	case r.alter != nil:
		return data
	}
	_ = from.Write(ctx, websocket.MessageText, r.reply(call))
	return nil
}

// note remembers a call and returns the rule for it, if there is one.
func (t *tap) note(call protocol.InvokeFunction) *rule {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.calls = append(t.calls, tapped{call.FunctionID, slices.Clone(call.Data)})
	for _, r := range t.rules {
		if r.fits(call) {
			if r.alter != nil {
				t.open[call.InvocationID] = r
			}
			return r
		}
	}
	return nil
}

func (r *rule) reply(call protocol.InvokeFunction) []byte {
	frame := m{"type": protocol.TypeInvocationResult, "invocation_id": call.InvocationID, "function_id": call.FunctionID}
	if r.fault != nil {
		frame["error"] = r.fault
	} else {
		frame["result"] = r.answer
	}
	data, _ := json.Marshal(frame)
	return data
}

// passAnswer changes an answer if a rule is for it.
func (t *tap) passAnswer(data []byte) []byte {
	r := t.ruleOfAnswer(data)
	if r == nil {
		return data
	}
	var frame m
	if json.Unmarshal(data, &frame) != nil {
		return data
	}
	result, isObject := frame["result"].(m)
	if !isObject {
		return data
	}
	r.alter(result)
	changed, err := json.Marshal(frame)
	if err != nil {
		return data
	}
	return changed
}

func (t *tap) ruleOfAnswer(data []byte) *rule {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if len(t.open) == 0 {
		return nil
	}
	var head protocol.InvocationResult
	if json.Unmarshal(data, &head) != nil {
		return nil
	}
	r := t.open[head.InvocationID]
	delete(t.open, head.InvocationID)
	return r
}

// script adds a rule and returns what removes it.
func (t *tap) script(r *rule) (remove func()) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.rules = append(t.rules, r)
	return func() {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		t.rules = slices.DeleteFunc(t.rules, func(each *rule) bool { return each == r })
	}
}

// since are the calls after the first n.
func (t *tap) since(n int) []tapped {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return slices.Clone(t.calls[n:])
}

// passed is how many calls there were so far.
func (t *tap) passed() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return len(t.calls)
}

// uses is how many calls fitted rules that want this text.
func (t *tap) uses(having string) int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	total := 0
	for _, r := range t.rules {
		if r.having == having {
			total += int(r.used.Load())
		}
	}
	return total
}
