package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// callerKey names the worker that made a call, inside its data
// (contracts/iii-bus.md §5.2).
const callerKey = "_caller_worker_id"

// call is one invocation on its way.
type call struct {
	// id is the caller's, empty in void calls.
	id         string
	functionID string
	namespace  string
	data       json.RawMessage
	metadata   json.RawMessage

	traceparent string
	baggage     string
	// caller is nil for calls of the engine itself.
	caller *connection
	// executor is the worker that has the call, once it was sent.
	executor *connection
	// reply gets the outcome exactly once; nil when nobody waits. It must not
	// block.
	reply func(outcome)
}

// outcome is what a call came to; with err, result has no meaning.
type outcome struct {
	result      json.RawMessage
	err         *protocol.ErrorBody
	traceparent string
	baggage     string
}

func (k *call) finish(o outcome) {
	if k.reply != nil {
		k.reply(o)
	}
}

func failure(code, format string, args ...any) outcome {
	return outcome{err: &protocol.ErrorBody{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// dispatch finds the function and lets it run. It waits while the executor's
// outbox is full and never for the function.
func (e *Engine) dispatch(ctx context.Context, k *call) {
	fn, elsewhere := e.registry.function(k.namespace, k.functionID)
	switch {
	case fn == nil:
		k.finish(outcome{err: functionNotFound(k, elsewhere)})
	case fn.builtin != nil:
		e.runBuiltin(ctx, fn.builtin, k)
	default:
		e.forward(ctx, fn, k)
	}
}

func functionNotFound(k *call, elsewhere []string) *protocol.ErrorBody {
	message := fmt.Sprintf("Function %s not found in namespace %s", k.functionID, k.namespace)
	if len(elsewhere) > 0 {
		message += "; it exists in " + strings.Join(elsewhere, ", ")
	}
	return &protocol.ErrorBody{Code: protocol.CodeFunctionNotFound, Message: message}
}

// forward hands a call to the worker that owns the function. The executor
// always sees an id; answers to void calls find nobody waiting (§5.1).
func (e *Engine) forward(ctx context.Context, fn *function, k *call) {
	msg := &protocol.InvokeFunction{
		InvocationID: k.id, FunctionID: fn.workerID, Data: k.data, Metadata: k.metadata,
		Traceparent: k.traceparent, Baggage: k.baggage,
	}
	if k.reply == nil {
		msg.InvocationID = uuid.NewString()
		if err := fn.owner.send(ctx, msg); err != nil {
			e.log.Debug("Void call lost", "function", fn.id, "error", err)
		}
		return
	}
	k.executor = fn.owner
	if !fn.owner.pending.add(k) {
		k.finish(failure(protocol.CodeInvocationError, "invocation_id is in use"))
		return
	}
	if err := fn.owner.send(ctx, msg); err != nil && fn.owner.pending.take(k.id) != nil {
		k.finish(stopped())
	}
}

// invoke is a call of the engine itself, in the default namespace; it waits for
// the outcome or for the context, whose end it reports as invocation_stopped.
func (e *Engine) invoke(ctx context.Context, functionID string, data json.RawMessage) outcome {
	return e.ask(ctx, &call{namespace: protocol.DefaultNamespace, functionID: functionID, data: data})
}

// ask is invoke for a call with trace context; it sets id and reply.
func (e *Engine) ask(ctx context.Context, k *call) outcome {
	answers := make(chan outcome, 1)
	k.id, k.reply = uuid.NewString(), func(o outcome) { answers <- o }
	defer k.forget()
	e.dispatch(ctx, k)
	select {
	case o := <-answers:
		return o
	case <-ctx.Done():
		return stopped()
	}
}

// enqueueFunction is served by the queue of the engine or, where that is off, by
// a queue worker; without either, enqueueing fails closed (§5.4).
const enqueueFunction = "engine::queue::enqueue"

func (e *Engine) enqueue(ctx context.Context, k *call, queue string) {
	receipt := uuid.NewString()
	request := map[string]any{
		"queue": queue, "function_id": k.functionID, "data": k.data, "messageReceiptId": receipt,
		"traceparent": k.traceparent, "baggage": k.baggage,
	}
	if k.namespace != protocol.DefaultNamespace {
		request["namespace"] = k.namespace
	}
	e.dispatch(ctx, &call{
		id: uuid.NewString(), namespace: protocol.DefaultNamespace, functionID: enqueueFunction,
		data: mustJSON(request), caller: k.caller,
		reply: func(o outcome) {
			if o.err != nil {
				k.finish(failure(protocol.CodeEnqueueError, "enqueueing failed: %s", o.err.Message))
				return
			}
			k.finish(outcome{result: mustJSON(map[string]string{"messageReceiptId": receipt})})
		},
	})
}

// withCaller sets callerKey in data that is an object. A key that the caller
// wrote itself, in whatever spelling, is replaced.
func withCaller(data json.RawMessage, workerID string) json.RawMessage {
	object := bytes.TrimSpace(data)
	if len(object) == 0 || object[0] != '{' {
		return data
	}
	if bytes.Contains(object, []byte(callerKey)) || bytes.Contains(object, []byte(`\u`)) {
		return replaceCaller(object, workerID)
	}
	rest := bytes.TrimSpace(object[1 : len(object)-1])
	out := make([]byte, 0, len(rest)+len(workerID)+32)
	out = append(append(out, '{'), rest...)
	if len(rest) > 0 {
		out = append(out, ',')
	}
	return append(out, `"`+callerKey+`":"`+workerID+`"}`...)
}

func replaceCaller(object json.RawMessage, workerID string) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &fields); err != nil {
		return object
	}
	fields[callerKey] = mustJSON(workerID)
	return mustJSON(fields)
}

// mustJSON encodes values of our own types, which always can be.
func mustJSON(value any) json.RawMessage {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("encoding %T: %v", value, err))
	}
	return bytes.TrimSpace(out.Bytes())
}
