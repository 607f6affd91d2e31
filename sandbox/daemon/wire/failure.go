package wire

import (
	"errors"
	"fmt"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestfiles"
)

// FailureKind is how the agent names an error on the wire.
type FailureKind string

// The kinds of errors that callers tell apart.
const (
	FailureMissing    FailureKind = "missing"
	FailureParent     FailureKind = "parent"
	FailureType       FailureKind = "type"
	FailurePermission FailureKind = "permission"
	FailureExists     FailureKind = "exists"
	FailureNotEmpty   FailureKind = "not-empty"
	FailureArgument   FailureKind = "argument"
	FailurePattern    FailureKind = "pattern"
	FailureStalled    FailureKind = "stalled"
	FailureOther      FailureKind = "other"
	// FailureNotFound and FailureNotExecutable are of exec only.
	FailureNotFound      FailureKind = "not-found"
	FailureNotExecutable FailureKind = "not-executable"
)

// Classify names an error of a file operation; the agent calls it.
func Classify(err error) FailureKind {
	err = guestfiles.Named(err)
	var argument *daemon.ArgumentError
	var pattern *daemon.PatternError
	switch {
	case errors.As(err, &argument):
		return FailureArgument
	case errors.As(err, &pattern):
		return FailurePattern
	case errors.Is(err, daemon.ErrParentMissing):
		return FailureParent
	case errors.Is(err, daemon.ErrWrongType):
		return FailureType
	// Before "exists", which package errors takes it for.
	case errors.Is(err, daemon.ErrNotEmpty):
		return FailureNotEmpty
	case errors.Is(err, daemon.ErrExists):
		return FailureExists
	case errors.Is(err, daemon.ErrFileMissing):
		return FailureMissing
	case errors.Is(err, daemon.ErrPermission):
		return FailurePermission
	case errors.Is(err, daemon.ErrUploadStalled):
		return FailureStalled
	default:
		return FailureOther
	}
}

// fileErrors are what the agent's words mean; where it says why, that is kept.
var fileErrors = map[FailureKind]error{
	FailureMissing:    daemon.ErrFileMissing,
	FailureParent:     daemon.ErrParentMissing,
	FailureType:       daemon.ErrWrongType,
	FailurePermission: daemon.ErrPermission,
	FailureExists:     daemon.ErrExists,
	FailureNotEmpty:   daemon.ErrNotEmpty,
	FailureStalled:    daemon.ErrUploadStalled,
}

// FileError turns an agent's answer back into the errors of package daemon.
func FileError(kind FailureKind, message string) error {
	switch kind {
	case "":
		return nil
	case FailureArgument:
		return &daemon.ArgumentError{Reason: message}
	case FailurePattern:
		return &daemon.PatternError{Reason: message}
	}
	if known := fileErrors[kind]; known != nil {
		return fmt.Errorf("%s: %w", message, known)
	}
	return errors.New(message)
}
