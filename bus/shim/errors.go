package shim

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Codes of contracts/code-runner.md §5.1 that this package gives, without the
// worker's prefix, and resource_exhausted of its §20. Another, handler_error,
// belongs to published functions.
const (
	codeInvalidRequest  = "invalid_request"
	codeRuntimeNotFound = "runtime_not_found"
	codeExpired         = "expired"
	codeCapacity        = "capacity"
	codeTimeout         = "timeout"
	codeExhausted       = "resource_exhausted"
	codeEngine          = "engine"
)

// callError is what a caller is told instead of a response.
type callError struct {
	code, message string
	// detail is more to read, such as what a program printed before its deadline.
	detail string
}

func (e *callError) Error() string { return e.code + ": " + e.message }

func invalid(format string, args ...any) error {
	return &callError{code: codeInvalidRequest, message: fmt.Sprintf(format, args...)}
}

func engineError(format string, args ...any) error {
	return &callError{code: codeEngine, message: fmt.Sprintf(format, args...)}
}

// wireError is the error as it goes over the bus. The original worker's SDK
// frames the error of any handler as "handler error: <text>" under
// invocation_failed; callers look for `<worker>::<code>: <message>` in the text
// (contracts/code-runner.md §3.5, iii-bus.md §5.6), so that is kept to the
// letter.
func (s *Shim) wireError(err error) *bus.RemoteError {
	var call *callError
	if !errors.As(err, &call) {
		call = &callError{code: codeEngine, message: scrub(err.Error())}
	}
	return &bus.RemoteError{
		Code:       protocol.CodeInvocationFailed,
		Message:    fmt.Sprintf("handler error: %s::%s: %s", s.WorkerName, call.code, call.message),
		Stacktrace: call.detail,
	}
}

func codeOf(err error) string {
	var call *callError
	if errors.As(err, &call) {
		return call.code
	}
	return codeEngine
}

// apiError says what the API server answered to an act. What it refuses as
// invalid came from the caller.
func apiError(act string, err error) error {
	if apierrors.IsInvalid(err) {
		return invalid("%s", scrub(causesOf(err)))
	}
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), `User "`) {
		// The server's text names the operator's account, which is not the caller's
		// business. Quotas and namespaces that end are forbidden too, and say why.
		return engineError("%s: the operator's role does not allow it", act)
	}
	return engineError("%s: %s", act, scrub(err.Error()))
}

// causesOf leaves out the name and kind of the refused object, which the caller
// does not know.
func causesOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err.Error()
	}
	text := ""
	for _, cause := range status.Status().Details.Causes {
		if text != "" {
			text += "; "
		}
		text += cause.Message
	}
	if text == "" {
		return err.Error()
	}
	return text
}

// messageOf is the text of an error of this package without its code.
func messageOf(err error) string {
	var call *callError
	if errors.As(err, &call) {
		return call.message
	}
	return err.Error()
}
