package publish

import (
	"errors"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Code is the part of an error that callers may depend on
// (contracts/code-runner.md §5.1).
type Code string

// The codes that a call can fail with.
const (
	CodeInvalidRequest    Code = "invalid_request"
	CodeExpired           Code = "expired"
	CodeCapacity          Code = "capacity"
	CodeTimeout           Code = "timeout"
	CodeHandlerError      Code = "handler_error"
	CodeResourceExhausted Code = "resource_exhausted"
	CodeEngine            Code = "engine"
)

// Errors of Acquire.
var (
	// ErrQueueFull says that as many calls wait for the runtime as may.
	ErrQueueFull = errors.New("too many calls wait for this runtime; retry later")
	// ErrFunctionQueueFull says that as many calls wait for the function as its
	// limits allow.
	ErrFunctionQueueFull = errors.New("too many calls wait for this function; retry later")
	// ErrNestedFull says that a call from inside a handler found no slot that it
	// could wait for without waiting for its own callers.
	ErrNestedFull = errors.New("the call comes from inside a handler that holds a slot it would wait for; " +
		"raise the concurrency or the replicas of the runtime, or retry later")
	// ErrRuntimeGone says that the runtime was deleted or suspended.
	ErrRuntimeGone = errors.New("no live runtime stands behind this function")
)

// CallError is the answer to a call that failed.
type CallError struct {
	Code    Code
	Message string
	// Stack is the guest's own stack, if the handler threw.
	Stack string
}

func (e *CallError) Error() string { return string(e.Code) + ": " + e.Message }

// remote is the error as a caller of the bus sees it. The original worker's SDK
// frames any handler's error like this, and callers look for
// `<worker>::<code>: <message>` in the text (contracts/code-runner.md §3.5).
func (e *CallError) remote(workerName string) *bus.RemoteError {
	return &bus.RemoteError{
		Code:       protocol.CodeInvocationFailed,
		Message:    "handler error: " + workerName + "::" + e.Error(),
		Stacktrace: e.Stack,
	}
}
