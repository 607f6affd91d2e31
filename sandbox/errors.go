package sandbox

import (
	"errors"
	"fmt"
	"time"
)

// The error types are named by what a caller can do about them. Messages never
// hold a sandbox id: providers remove it from what a back end says.

// NotFoundError says that the sandbox does not exist (any more).
type NotFoundError struct{}

// NewNotFoundError returns a NotFoundError.
func NewNotFoundError() *NotFoundError { return &NotFoundError{} }

func (e *NotFoundError) Error() string { return "the sandbox does not exist" }

// BusyError says that the sandbox runs as many programs as it may; the request
// was not started and can be repeated.
type BusyError struct{}

// NewBusyError returns a BusyError.
func NewBusyError() *BusyError { return &BusyError{} }

func (e *BusyError) Error() string {
	return "the sandbox is at its exec concurrency cap (S003); try again when a slot is free"
}

// CapacityError says that the back end takes no further sandbox now.
type CapacityError struct{ Reason string }

// NewCapacityError returns a CapacityError with the back end's reason.
func NewCapacityError(reason string) *CapacityError { return &CapacityError{Reason: reason} }

func (e *CapacityError) Error() string { return "sandbox capacity: " + e.Reason }

// TimeoutError says that a program passed its deadline and was killed.
type TimeoutError struct{ After time.Duration }

// NewTimeoutError returns a TimeoutError for a limit.
func NewTimeoutError(after time.Duration) *TimeoutError { return &TimeoutError{After: after} }

func (e *TimeoutError) Error() string { return fmt.Sprintf("timed out after %s", e.After) }

// UnavailableError says that the back end cannot be asked: the bus is down or
// the daemon is absent. Nothing was started.
type UnavailableError struct{ Err error }

// NewUnavailableError returns an UnavailableError that wraps its cause.
func NewUnavailableError(err error) *UnavailableError { return &UnavailableError{Err: err} }

func (e *UnavailableError) Error() string {
	return "the sandbox daemon cannot be reached: " + e.Err.Error()
}
func (e *UnavailableError) Unwrap() error { return e.Err }

// UnknownOutcomeError says that a request was sent and no answer came: it may
// have taken effect.
type UnknownOutcomeError struct{ Err error }

// NewUnknownOutcomeError returns an UnknownOutcomeError that wraps its cause.
func NewUnknownOutcomeError(err error) *UnknownOutcomeError { return &UnknownOutcomeError{Err: err} }

func (e *UnknownOutcomeError) Error() string {
	return "no answer from the sandbox daemon: " + e.Err.Error()
}
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// FileError says that a file of the guest could not be read or written.
type FileError struct{ Path, Reason string }

// NewFileError returns a FileError for a guest path.
func NewFileError(path, reason string) *FileError { return &FileError{Path: path, Reason: reason} }

func (e *FileError) Error() string { return fmt.Sprintf("guest file %s: %s", e.Path, e.Reason) }

// RejectedError says that the back end refused the request for good; repeating
// it unchanged fails again.
type RejectedError struct {
	// Code is the back end's own code (contracts/iii-sandbox.md §2.2), or empty.
	Code string
	// Reason is the back end's text without ids.
	Reason string
}

// NewRejectedError returns a RejectedError.
func NewRejectedError(code, reason string) *RejectedError {
	return &RejectedError{Code: code, Reason: reason}
}

func (e *RejectedError) Error() string {
	if e.Code == "" {
		return e.Reason
	}
	return e.Code + ": " + e.Reason
}

// TransientError says that the back end failed in a way that may pass: a boot
// or a pull that went wrong, an upload that stalled.
type TransientError struct{ Code, Reason string }

// NewTransientError returns a TransientError.
func NewTransientError(code, reason string) *TransientError {
	return &TransientError{Code: code, Reason: reason}
}

func (e *TransientError) Error() string { return e.Code + ": " + e.Reason }

// IsNotFound reports whether err says that the sandbox is gone.
func IsNotFound(err error) bool { return is[*NotFoundError](err) }

// IsBusy reports whether err says that all exec slots are taken.
func IsBusy(err error) bool { return is[*BusyError](err) }

// IsCapacity reports whether err says that no further sandbox fits.
func IsCapacity(err error) bool { return is[*CapacityError](err) }

// IsTimeout reports whether err says that a program passed its deadline.
func IsTimeout(err error) bool { return is[*TimeoutError](err) }

// IsUnavailable reports whether err says that the back end cannot be asked.
func IsUnavailable(err error) bool { return is[*UnavailableError](err) }

// IsUnknownOutcome reports whether err leaves open whether the request took
// effect.
func IsUnknownOutcome(err error) bool { return is[*UnknownOutcomeError](err) }

// IsDead reports whether err says that the guest itself has died, although the
// back end may still list its sandbox (contracts/iii-sandbox.md §3.5).
func IsDead(err error) bool {
	var transient *TransientError
	return errors.As(err, &transient) && transient.Code == "S300"
}

// IsRejected reports whether err says that the request cannot succeed as it is.
func IsRejected(err error) bool { return is[*RejectedError](err) }

// IgnoreNotFound returns nil for a NotFoundError and err otherwise.
func IgnoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}
