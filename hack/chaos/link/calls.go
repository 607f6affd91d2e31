package link

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Observer hears of calls of the worker's functions. Its methods are called by
// several goroutines.
type Observer interface {
	// Passed is a call that the worker got, or may have got.
	Passed(invocation string, call *protocol.InvokeFunction)
	// Answered is the worker's answer to it, also one that is held back or dropped
	// then.
	Answered(answer *protocol.InvocationResult)
}

// Rule makes calls of the worker's functions go wrong. At most one of Fault, Delay
// and Lose is set.
type Rule struct {
	// Hits says whether a call of this function is hit; nil hits all. It is asked
	// by several goroutines.
	Hits func(function string) bool
	// Fault is answered in the worker's place, who never gets the call.
	Fault func(function string) *protocol.ErrorBody
	// Delay is how long the answer is held back.
	Delay func() time.Duration
	// Lose drops the answer.
	Lose bool
}

// Add makes a rule hold until it is removed. Of several the one that hits first
// counts.
func (l *Link) Add(r *Rule) (remove func()) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.rules[r] = struct{}{}
	return func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		delete(l.rules, r)
	}
}

// pass returns the message to hand on, nil for none.
func (l *Link) pass(ctx context.Context, p pipe, data []byte) []byte {
	kind := protocol.TypeInvocationResult
	if p.towardsWorker {
		kind = protocol.TypeInvokeFunction
	}
	if !hasType(data, kind) {
		return data
	}
	decoded, err := protocol.Decode(data)
	if err != nil {
		return data
	}
	switch frame := decoded.(type) {
	case *protocol.InvokeFunction:
		return l.passCall(ctx, p, data, frame)
	case *protocol.InvocationResult:
		return l.passAnswer(ctx, p, data, frame)
	}
	return data
}

// hasType spares most frames the decoder; a false hit costs no more than that.
func hasType(data []byte, kind protocol.Type) bool {
	return strings.Contains(string(data), `"`+string(kind)+`"`)
}

func (l *Link) passCall(ctx context.Context, p pipe, data []byte, call *protocol.InvokeFunction) []byte {
	r := l.ruleFor(call.FunctionID)
	if r != nil && r.Fault != nil {
		answer, err := protocol.Encode(&protocol.InvocationResult{
			InvocationID: call.InvocationID, FunctionID: call.FunctionID, Error: r.Fault(call.FunctionID),
		})
		if err == nil {
			_ = p.from.Write(ctx, websocket.MessageText, answer)
		}
		return nil
	}
	if r != nil {
		l.mutex.Lock()
		l.open[call.InvocationID] = r
		l.mutex.Unlock()
	}
	if l.observer != nil {
		l.observer.Passed(call.InvocationID, call)
	}
	return data
}

func (l *Link) ruleFor(function string) *Rule {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for r := range l.rules {
		if r.Hits == nil || r.Hits(function) {
			return r
		}
	}
	return nil
}

func (l *Link) passAnswer(ctx context.Context, p pipe, data []byte, answer *protocol.InvocationResult) []byte {
	if l.observer != nil {
		l.observer.Answered(answer)
	}
	l.mutex.Lock()
	r, known := l.open[answer.InvocationID]
	delete(l.open, answer.InvocationID)
	l.mutex.Unlock()
	switch {
	case !known:
		return data
	case r.Lose:
		return nil
	}
	p.answering.Go(func() {
		if pause(ctx, r.Delay()) {
			_ = p.to.Write(ctx, websocket.MessageText, data)
		}
	})
	return nil
}

// DaemonFault is a failure as the sandbox daemon words it: one object inside the
// text of its bus client (contracts/iii-sandbox.md §2.1).
func DaemonFault(code, text string) *protocol.ErrorBody {
	body, _ := json.Marshal(map[string]any{ // texts always can be marshalled
		"type": "injected", "code": code, "message": text, "docs_url": "", "fix": nil, "retryable": false,
	})
	return &protocol.ErrorBody{Code: protocol.CodeInvocationFailed, Message: "handler error: " + string(body)}
}
