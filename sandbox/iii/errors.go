package iii

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// remoteFault is the JSON text inside an error of the daemon
// (contracts/iii-sandbox.md §2.1); older daemons leave out the newer fields.
type remoteFault struct {
	Code      string `json:"code"`
	Type      string `json:"type"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// typed turns the error of a bus call into one of package sandbox.
func typed(err error, kind effect) error {
	var remote *bus.RemoteError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &remote):
		return fromRemote(remote, kind)
	case bus.IsNotConnected(err):
		return sandbox.NewUnavailableError(bus.ErrNotConnected)
	}
	var large *bus.TooLargeError
	if errors.As(err, &large) {
		return sandbox.NewRejectedError("", large.Error())
	}
	return unanswered(err, kind)
}

// unanswered types the end of a call that got no answer: by a deadline, a lost
// connection, or a caller that left.
func unanswered(err error, kind effect) error {
	if kind == changes {
		return sandbox.NewUnknownOutcomeError(err)
	}
	return sandbox.NewUnavailableError(err)
}

func fromRemote(remote *bus.RemoteError, kind effect) error {
	switch remote.Code {
	case protocol.CodeFunctionNotFound, protocol.CodeNotFound, protocol.CodeInvocationError, protocol.CodeChannelSendFailed:
		return sandbox.NewUnavailableError(errors.New("no sandbox daemon serves this on the bus"))
	case protocol.CodeInvocationStopped:
		return unanswered(errors.New("the sandbox daemon left the bus"), kind)
	case protocol.CodeForbidden, protocol.CodeAuthError:
		return sandbox.NewRejectedError(remote.Code, "the bus forbids this call")
	}
	if fault, ok := parseFault(remote.Message); ok {
		return fault.typed()
	}
	// A request that did not decode, or a server of another kind (§2.1).
	return sandbox.NewRejectedError("", clean(strings.TrimPrefix(remote.Message, "handler error: ")))
}

// parseFault reads the fault from the first brace on; the text before it differs
// between servers and clients, and some wrap the object in {"error": …}.
func parseFault(message string) (remoteFault, bool) {
	start := strings.IndexByte(message, '{')
	if start < 0 {
		return remoteFault{}, false
	}
	var body struct {
		remoteFault
		Error *remoteFault `json:"error"`
	}
	// A decoder reads the object alone, whatever follows it.
	if json.NewDecoder(strings.NewReader(message[start:])).Decode(&body) != nil {
		return remoteFault{}, false
	}
	fault := body.remoteFault
	if body.Error != nil {
		fault = *body.Error
	}
	return fault, fault.Code != ""
}

// typed maps an S-code to the error that names what its receiver can do (§2.2).
func (f remoteFault) typed() error {
	reason := clean(f.Message)
	switch f.Code {
	case "S002", "S004":
		return sandbox.NewNotFoundError()
	case "S003":
		return sandbox.NewBusyError()
	case "S200":
		return sandbox.NewTimeoutError(f.timeout())
	case "S102", "S300", "S218":
		return sandbox.NewTransientError(f.Code, reason)
	case "S400":
		return sandbox.NewCapacityError(reason)
	case "S001", "S100", "S101":
		return sandbox.NewRejectedError(f.Code, reason)
	}
	if strings.HasPrefix(f.Code, "S21") {
		return sandbox.NewFileError("", f.Code+": "+reason)
	}
	if f.Retryable {
		return sandbox.NewTransientError(f.Code, reason)
	}
	return sandbox.NewRejectedError(f.Code, reason)
}

var afterMillis = regexp.MustCompile(`after (\d+) ms`)

// timeout is the limit that an S200 names, 0 when it names none.
func (f remoteFault) timeout() time.Duration {
	match := afterMillis.FindStringSubmatch(f.Message)
	if match == nil {
		return 0
	}
	millis, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(millis) * time.Millisecond
}

// atPath puts the guest path into a file error.
func atPath(err error, path string) error {
	var file *sandbox.FileError
	if errors.As(err, &file) {
		return sandbox.NewFileError(path, file.Reason)
	}
	return err
}
