package daemon

import (
	"errors"
	"io/fs"
)

// Errors that a Machine returns; the file ones wrap those of io/fs, so that
// errors.Is works with either.
var (
	// ErrExecTimeout says that a program was killed at its timeout (S200).
	ErrExecTimeout = errors.New("the program passed its timeout")
	// ErrNoImage says that the back end has no files for an image of the catalog
	// (S101, S102).
	ErrNoImage = errors.New("the image has no root file system")
	// ErrMachineGone says that the guest has ended (S300).
	ErrMachineGone = errors.New("the guest has ended")
	// ErrParentMissing says that a file's folder does not exist (S211 with a fix).
	ErrParentMissing = errors.New("parent directory not found")
	// ErrWrongType says that a path is a folder where a file is needed or the
	// other way round (S212).
	ErrWrongType = errors.New("not a directory or wrong type")
	// ErrExists says that a path is there already (S213).
	ErrExists = fs.ErrExist
	// ErrNotEmpty says that a folder holds something (S214).
	ErrNotEmpty = errors.New("directory not empty")
	// ErrUploadStalled says that the content of a file paused for too long (S218).
	ErrUploadStalled = errors.New("the upload stalled")
	// ErrFileMissing says that a path does not exist (S211).
	ErrFileMissing = fs.ErrNotExist
	// ErrPermission says that the guest may not touch the path (S215).
	ErrPermission = fs.ErrPermission
)

// ArgumentError says that the arguments of a file operation do not fit together
// or what they name (S210).
type ArgumentError struct{ Reason string }

// Error implements error.
func (e *ArgumentError) Error() string { return e.Reason }

// PatternError says that a regular expression cannot be used (S217).
type PatternError struct{ Reason string }

// Error implements error.
func (e *PatternError) Error() string { return e.Reason }
