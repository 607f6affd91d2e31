package guestfiles

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// Named joins an error of a Tree with the one of package daemon that it is, where
// package errors does not see that by itself.
func Named(err error) error {
	switch {
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return errors.Join(daemon.ErrWrongType, err)
	case errors.Is(err, unix.ENOTEMPTY):
		return errors.Join(daemon.ErrNotEmpty, err)
	case errors.Is(err, unix.EROFS):
		return errors.Join(daemon.ErrPermission, err)
	}
	return err
}
