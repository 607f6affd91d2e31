package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// invoke starts the handler of a call, or answers at once that it cannot.
func (s *session) invoke(call *protocol.InvokeFunction) {
	c := s.client
	handler, known := lookup(c.registry, c.registry.functions, call.FunctionID)
	switch {
	case s.draining.Load():
		s.post(failure(call, protocol.CodeInvocationStopped, "the worker is shutting down"))
	case !known:
		s.post(failure(call, protocol.CodeFunctionNotFound, "function "+call.FunctionID+" is not registered with this worker"))
	case !c.slots.TryAcquire(1):
		s.post(failure(call, CodeCapacity, "too many calls are running in this worker"))
	default:
		s.handlers.run(func() {
			defer c.slots.Release(1)
			s.answer(call, handler)
		})
	}
}

// answer runs the handler and sends its answer on the connection that the call
// came on; when that is gone the answer is of no use to anybody (§4.3).
func (s *session) answer(call *protocol.InvokeFunction, handler Handler) {
	ctx := withTrace(s.ctx, call.Traceparent, call.Baggage)
	result, err := runHandler(ctx, handler, call, s.client.log)
	if call.InvocationID == "" {
		return
	}
	// Only this caller gets into trouble when a place in the queue is long in
	// coming, so it may wait as long as the connection lives.
	_ = s.outbox.send(s.ctx, s.ctx.Done(), encodeAnswer(call, result, err))
}

func runHandler(ctx context.Context, handler Handler, call *protocol.InvokeFunction, log *slog.Logger) (result json.RawMessage, err error) {
	defer func() {
		if value := recover(); value != nil {
			logPanic(log, call.FunctionID, value)
			result, err = nil, fmt.Errorf("function %s panicked", call.FunctionID)
		}
	}()
	return handler(ctx, Invocation{
		ID:          call.InvocationID,
		FunctionID:  call.FunctionID,
		Data:        call.Data,
		Metadata:    call.Metadata,
		Traceparent: call.Traceparent,
		Baggage:     call.Baggage,
		decoded:     true,
	})
}

// logPanic leaves out the value unless the runtime made it, because a value of
// ours may carry what must not be logged.
func logPanic(log *slog.Logger, what string, value any) {
	cause := fmt.Sprintf("%T", value)
	var fault runtime.Error
	if err, ok := value.(error); ok && errors.As(err, &fault) {
		cause = fault.Error()
	}
	log.Error("Panic", "in", what, "cause", cause, "stack", string(debug.Stack()))
}

func encodeAnswer(call *protocol.InvokeFunction, result json.RawMessage, err error) []byte {
	answer := failureOf(call, err)
	if err == nil {
		answer = &protocol.InvocationResult{
			InvocationID: call.InvocationID,
			FunctionID:   call.FunctionID,
			Result:       result,
			Traceparent:  call.Traceparent,
			Baggage:      call.Baggage,
		}
	}
	frame, err := encode(answer)
	if err == nil {
		return frame
	}
	// The result, or the text of the error, is no JSON or too large.
	return mustEncode(failure(call, protocol.CodeInvocationFailed, err.Error()))
}

// failureOf keeps the code of a *RemoteError (contracts/iii-bus.md §5.6). It is
// nil for a nil error.
func failureOf(call *protocol.InvokeFunction, err error) *protocol.InvocationResult {
	if err == nil {
		return nil
	}
	answer := failure(call, protocol.CodeInvocationFailed, err.Error())
	var remote *RemoteError
	if errors.As(err, &remote) && remote.Code != "" {
		answer.Error = &protocol.ErrorBody{Code: remote.Code, Message: remote.Message, Stacktrace: remote.Stacktrace}
	}
	return answer
}

func failure(call *protocol.InvokeFunction, code, message string) *protocol.InvocationResult {
	return &protocol.InvocationResult{
		InvocationID: call.InvocationID,
		FunctionID:   call.FunctionID,
		Error:        &protocol.ErrorBody{Code: code, Message: message},
		Traceparent:  call.Traceparent,
		Baggage:      call.Baggage,
	}
}
