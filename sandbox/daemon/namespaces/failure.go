package namespaces

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// failureKind is how the agent names an error on the wire.
type failureKind string

const (
	failureMissing    failureKind = "missing"
	failureParent     failureKind = "parent"
	failureType       failureKind = "type"
	failurePermission failureKind = "permission"
	failureOther      failureKind = "other"
	// failureNotFound and failureNotExecutable are of exec only.
	failureNotFound      failureKind = "not-found"
	failureNotExecutable failureKind = "not-executable"
)

// classify names an error of a file operation; the agent calls it.
func classify(err error) failureKind {
	switch {
	case errors.Is(err, daemon.ErrParentMissing):
		return failureParent
	case errors.Is(err, daemon.ErrWrongType), errors.Is(err, syscall.EISDIR),
		errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return failureType
	case errors.Is(err, fs.ErrNotExist):
		return failureMissing
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return failurePermission
	default:
		return failureOther
	}
}

// fileError turns the agent's answer back into the errors of package daemon.
func (r reply) fileError() error {
	switch r.Failure {
	case "":
		return nil
	case failureMissing:
		return fmt.Errorf("%s: %w", r.Message, daemon.ErrFileMissing)
	case failureParent:
		return daemon.ErrParentMissing
	case failureType:
		return daemon.ErrWrongType
	case failurePermission:
		return fmt.Errorf("%s: %w", r.Message, daemon.ErrPermission)
	default:
		return errors.New(r.Message)
	}
}
