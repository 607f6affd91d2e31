package namespaces

import (
	"errors"
	"fmt"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestfiles"
)

// failureKind is how the agent names an error on the wire.
type failureKind string

const (
	failureMissing    failureKind = "missing"
	failureParent     failureKind = "parent"
	failureType       failureKind = "type"
	failurePermission failureKind = "permission"
	failureExists     failureKind = "exists"
	failureNotEmpty   failureKind = "not-empty"
	failureArgument   failureKind = "argument"
	failurePattern    failureKind = "pattern"
	failureStalled    failureKind = "stalled"
	failureOther      failureKind = "other"
	// failureNotFound and failureNotExecutable are of exec only.
	failureNotFound      failureKind = "not-found"
	failureNotExecutable failureKind = "not-executable"
)

// classify names an error of a file operation; the agent calls it.
func classify(err error) failureKind {
	err = guestfiles.Named(err)
	var argument *daemon.ArgumentError
	var pattern *daemon.PatternError
	switch {
	case errors.As(err, &argument):
		return failureArgument
	case errors.As(err, &pattern):
		return failurePattern
	case errors.Is(err, daemon.ErrParentMissing):
		return failureParent
	case errors.Is(err, daemon.ErrWrongType):
		return failureType
	// Before "exists", which package errors takes it for.
	case errors.Is(err, daemon.ErrNotEmpty):
		return failureNotEmpty
	case errors.Is(err, daemon.ErrExists):
		return failureExists
	case errors.Is(err, daemon.ErrFileMissing):
		return failureMissing
	case errors.Is(err, daemon.ErrPermission):
		return failurePermission
	case errors.Is(err, daemon.ErrUploadStalled):
		return failureStalled
	default:
		return failureOther
	}
}

// fileErrors are what the agent's words mean; where it says why, that is kept.
var fileErrors = map[failureKind]error{
	failureMissing:    daemon.ErrFileMissing,
	failureParent:     daemon.ErrParentMissing,
	failureType:       daemon.ErrWrongType,
	failurePermission: daemon.ErrPermission,
	failureExists:     daemon.ErrExists,
	failureNotEmpty:   daemon.ErrNotEmpty,
	failureStalled:    daemon.ErrUploadStalled,
}

// fileError turns the agent's answer back into the errors of package daemon.
func (r reply) fileError() error {
	switch r.Failure {
	case "":
		return nil
	case failureArgument:
		return &daemon.ArgumentError{Reason: r.Message}
	case failurePattern:
		return &daemon.PatternError{Reason: r.Message}
	}
	if known := fileErrors[r.Failure]; known != nil {
		return fmt.Errorf("%s: %w", r.Message, known)
	}
	return errors.New(r.Message)
}
