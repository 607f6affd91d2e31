package publish

import (
	"context"
	"errors"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	messageTimeout = "the call passed its deadline"
	messageGone    = "no live runtime stands behind this function"
	messageLost    = "the sandbox was lost during the call; the handler may have run"
)

// asCallError turns any failure of a call into the answer that its caller gets.
// No answer holds a runtime id or sandbox id.
func asCallError(err error) *CallError {
	var call *CallError
	var failure *wire.Failure
	switch {
	case errors.As(err, &call):
		return call
	case errors.As(err, &failure):
		return guestFailure(failure)
	case errors.Is(err, ErrRuntimeGone):
		return &CallError{Code: CodeExpired, Message: messageGone}
	case errors.Is(err, ErrQueueFull), errors.Is(err, ErrFunctionQueueFull), errors.Is(err, ErrNestedFull):
		return &CallError{Code: CodeCapacity, Message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded), sandbox.IsTimeout(err):
		return &CallError{Code: CodeTimeout, Message: messageTimeout}
	case sandbox.IsCapacity(err), sandbox.IsBusy(err):
		return &CallError{Code: CodeCapacity, Message: err.Error()}
	case sandbox.IsNotFound(err):
		return &CallError{Code: CodeExpired, Message: messageGone}
	case sandbox.IsUnknownOutcome(err), sandbox.IsDead(err):
		return &CallError{Code: CodeEngine, Message: messageLost}
	default:
		return &CallError{Code: CodeEngine, Message: err.Error()}
	}
}

func guestFailure(f *wire.Failure) *CallError {
	switch f.Kind {
	case wire.TimedOut:
		return &CallError{Code: CodeTimeout, Message: messageTimeout}
	case wire.ResultTooLarge:
		return &CallError{Code: CodeResourceExhausted, Message: f.Message}
	case wire.NotPlanted:
		return &CallError{Code: CodeExpired, Message: messageGone}
	case wire.BadRequest, wire.Internal, wire.InterpreterMissing:
		return &CallError{Code: CodeEngine, Message: f.Error()}
	default:
		return &CallError{Code: CodeHandlerError, Message: f.Error(), Stack: f.Stack}
	}
}
