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
	// (S101).
	ErrNoImage = errors.New("the image has no root file system")
	// ErrMachineGone says that the guest has ended (S300).
	ErrMachineGone = errors.New("the guest has ended")
	// ErrParentMissing says that a file's folder does not exist (S211 with a fix).
	ErrParentMissing = errors.New("parent directory not found")
	// ErrWrongType says that a path is a folder where a file is needed or the
	// other way round (S212).
	ErrWrongType = errors.New("not a directory or wrong type")
	// ErrFileMissing says that a path does not exist (S211).
	ErrFileMissing = fs.ErrNotExist
	// ErrPermission says that the guest may not touch the path (S215).
	ErrPermission = fs.ErrPermission
)
