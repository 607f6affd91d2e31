package guestfiles

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// Move renames a path; across file systems it copies and then deletes.
func (t *Tree) Move(ctx context.Context, spec daemon.MoveSpec) error {
	from, oldName, err := t.parent(spec.From)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	if _, err := stat(from, oldName); err != nil {
		return err
	}
	to, newName, err := t.parentForNew(spec.To)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	err = rename(from, oldName, to, newName, spec.Overwrite)
	if errors.Is(err, unix.EXDEV) {
		return moveAcross(ctx, from, oldName, to, newName, spec.Overwrite)
	}
	return err
}

// rename is atomic in both forms: without overwrite the kernel itself refuses a
// name that is taken.
func rename(from int, oldName string, to int, newName string, overwrite bool) error {
	flags := uint(unix.RENAME_NOREPLACE)
	if overwrite {
		flags = 0
	}
	return unix.Renameat2(from, oldName, to, newName, flags)
}

// moveAcross copies beside the target, so that nobody sees half of it under its
// name.
func moveAcross(ctx context.Context, from int, oldName string, to int, newName string, overwrite bool) error {
	temporary := temporaryName()
	err := copyEntry(ctx, from, oldName, to, temporary, 0)
	if err == nil {
		err = rename(to, temporary, to, newName, overwrite)
	}
	if err != nil {
		cleanup := context.WithoutCancel(ctx)
		return errors.Join(err, ifThere(remove(cleanup, to, temporary, true, 0)))
	}
	return remove(ctx, from, oldName, true, 0)
}

func ifThere(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
