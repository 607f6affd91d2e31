package guestfiles

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// Remove deletes a path: a file or link, an empty folder, or with Recursive a
// folder with all it holds.
func (t *Tree) Remove(ctx context.Context, spec daemon.RemoveSpec) error {
	folder, base, err := t.parent(spec.Path)
	if err != nil {
		return err
	}
	defer unix.Close(folder)
	return remove(ctx, folder, base, spec.Recursive, 0)
}

// remove deletes a name of a folder. Only where recursion is asked for it looks
// below folders, and into each through the descriptor of the one above.
func remove(ctx context.Context, folder int, base string, recursive bool, depth int) error {
	status, err := stat(folder, base)
	if err != nil {
		return err
	}
	if !isDir(status) {
		return unix.Unlinkat(folder, base, 0)
	}
	err = unix.Unlinkat(folder, base, unix.AT_REMOVEDIR)
	if err == nil || !recursive || !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := empty(ctx, folder, base, depth); err != nil {
		return err
	}
	return unix.Unlinkat(folder, base, unix.AT_REMOVEDIR)
}

// empty deletes what a folder holds.
func empty(ctx context.Context, folder int, base string, depth int) error {
	below, err := openFolderAt(folder, base, depth)
	if err != nil {
		return err
	}
	defer below.Close()
	names, err := below.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := remove(ctx, int(below.Fd()), name, true, depth+1)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}
