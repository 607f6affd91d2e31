package bus

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// CodeCapacity answers a call that found MaxConcurrentHandlers running.
const CodeCapacity = "capacity"

// ErrNotConnected says that a call was not sent, because there was no
// connection. Wait with WaitConnected and try again.
var ErrNotConnected = errors.New("not connected to the bus")

// TimeoutError says that no answer came in time; the function may have run
// (contracts/iii-bus.md §5.1: an executor is never told).
type TimeoutError struct {
	FunctionID string
	After      time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("calling %s: no answer within %s", e.FunctionID, e.After.Round(time.Millisecond))
}

// Unwrap makes it a context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Timeout marks it for net.Error-like checks.
func (e *TimeoutError) Timeout() bool { return true }

// RemoteError is an error answer. A handler that returns one decides the code
// that its caller sees (§5.6).
type RemoteError struct {
	Code, Message, Stacktrace string
}

func (e *RemoteError) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

func remoteError(body *protocol.ErrorBody) *RemoteError {
	return &RemoteError{Code: body.Code, Message: body.Message, Stacktrace: body.Stacktrace}
}

// RejectedError says that the engine refused this worker, or one of its
// functions (§2.12).
type RejectedError struct {
	Code, Namespace, WorkerName, FunctionID string
	// OwnerWorkerID is the incumbent's; empty when an id is reserved by the
	// engine. The text of the error leaves it out.
	OwnerWorkerID string
}

func (e *RejectedError) Error() string {
	what := "worker " + e.WorkerName
	if e.FunctionID != "" {
		what = "function " + e.FunctionID
	}
	return fmt.Sprintf("the bus rejected %s in namespace %s: %s", what, e.Namespace, e.Code)
}

// ConnectionLostError says that the connection went while a call was under way:
// the call may or may not have had its effect, and its answer can never come.
type ConnectionLostError struct {
	FunctionID string
}

func (e *ConnectionLostError) Error() string {
	return fmt.Sprintf("calling %s: connection to the bus lost, outcome unknown", e.FunctionID)
}

// TooLargeError says that a frame was not sent, because the engine would drop
// the whole connection over it (§1.3).
type TooLargeError struct {
	// Size and Limit are bytes of the encoded frame.
	Size, Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("frame of %d bytes exceeds the bus limit of %d; use a channel", e.Size, e.Limit)
}

// handshakeError says that the engine's HTTP side refused an upgrade.
type handshakeError struct{ status int }

func (e *handshakeError) Error() string {
	return fmt.Sprintf("the engine answered the upgrade with HTTP %d", e.status)
}

// IsTimeout reports whether a call got no answer in time.
func IsTimeout(err error) bool {
	var target *TimeoutError
	return errors.As(err, &target)
}

// IsNotConnected reports whether a call was not sent for lack of a connection.
func IsNotConnected(err error) bool { return errors.Is(err, ErrNotConnected) }

// IsConnectionLost reports whether the connection went under a call.
func IsConnectionLost(err error) bool {
	var target *ConnectionLostError
	return errors.As(err, &target)
}

// IsNotFound reports whether the engine knows no such function: as an answer of
// a discovery function, or of a call.
func IsNotFound(err error) bool {
	code := RemoteCode(err)
	return code == protocol.CodeNotFound || code == protocol.CodeFunctionNotFound
}

// RemoteCode is the code of an error answer, and empty for any other error.
func RemoteCode(err error) string {
	var target *RemoteError
	if errors.As(err, &target) {
		return target.Code
	}
	return ""
}

// withoutURL drops the URL that net/http puts into errors of a handshake,
// because queries hold tokens and channel keys.
func withoutURL(err error) error {
	var target *url.Error
	if errors.As(err, &target) {
		return target.Err
	}
	return err
}

// actError says what was being done, and with which id.
func actError(act, id string, err error) error { return fmt.Errorf("%s %s: %w", act, id, err) }
