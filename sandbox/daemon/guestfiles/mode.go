package guestfiles

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// keepID leaves an owner as it is.
const keepID = -1

// ChangeMode sets mode and, where given, owner of a path, and with Recursive of
// all below it. Links below it are neither followed nor counted.
func (t *Tree) ChangeMode(ctx context.Context, spec daemon.ModeSpec) (int, error) {
	path, err := t.unlinked(spec.Path)
	if err != nil {
		return 0, err
	}
	if path == "/" {
		return t.changeRoot(ctx, spec)
	}
	folder, base, err := t.parent(path)
	if err != nil {
		return 0, err
	}
	defer unix.Close(folder)
	status, err := stat(folder, base)
	if err != nil {
		return 0, err
	}
	return change(ctx, folder, entry{base: base, status: status}, spec, 0)
}

// changeRoot is ChangeMode for the root, which has no name.
func (t *Tree) changeRoot(ctx context.Context, spec daemon.ModeSpec) (int, error) {
	return change(ctx, t.root, entry{base: ".", status: unix.Stat_t{Mode: unix.S_IFDIR}}, spec, 0)
}

// change handles what is below a folder first: the mode may take the right to
// look there.
func change(ctx context.Context, folder int, e entry, spec daemon.ModeSpec, depth int) (int, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	count := 0
	if spec.Recursive && isDir(e.status) {
		below, entries, err := readFolderAt(folder, e.base, depth)
		if err != nil {
			return 0, err
		}
		defer below.Close()
		for _, next := range entries {
			if kind(next.status) == unix.S_IFLNK {
				continue
			}
			changed, err := change(ctx, int(below.Fd()), next, spec, depth+1)
			count += changed
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return count, err
			}
		}
	}
	if err := setOwner(folder, e.base, spec); err != nil {
		return count, err
	}
	// After the owner, whose change clears set-user-id bits.
	if err := setMode(folder, e.base, spec.Mode); err != nil {
		return count, err
	}
	return count + 1, nil
}

func setOwner(folder int, base string, spec daemon.ModeSpec) error {
	if spec.UID == nil && spec.GID == nil {
		return nil
	}
	uid, gid := keepID, keepID
	if spec.UID != nil {
		uid = int(*spec.UID)
	}
	if spec.GID != nil {
		gid = int(*spec.GID)
	}
	return unix.Fchownat(folder, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
}

// setMode does not follow a link where the kernel can help it, which is from 6.6
// on; before, a swapped name leads to another file of the same root.
func setMode(folder int, base string, mode uint32) error {
	err := unix.Fchmodat(folder, base, mode, unix.AT_SYMLINK_NOFOLLOW)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	status, failed := stat(folder, base)
	if failed != nil {
		return failed
	}
	if kind(status) == unix.S_IFLNK {
		return daemon.ErrWrongType
	}
	return unix.Fchmodat(folder, base, mode, 0)
}

const maxLinks = 40

// unlinked replaces final links of a path by what they say, until it ends in
// none. The root is "/".
func (t *Tree) unlinked(name string) (string, error) {
	for range maxLinks {
		above, base := split(name)
		if base == "" {
			return "/", nil
		}
		if base == "." || base == ".." {
			return "", &daemon.ArgumentError{Reason: "path does not end in a name: " + name}
		}
		folder, _, err := t.parent(name)
		if err != nil {
			return "", err
		}
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(folder, base, target)
		_ = unix.Close(folder)
		if errors.Is(err, unix.EINVAL) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		if name = string(target[:n]); name == "" || name[0] != '/' {
			name = above + name
		}
	}
	return "", unix.ELOOP
}
