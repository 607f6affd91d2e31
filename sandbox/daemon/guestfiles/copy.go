package guestfiles

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

func temporaryName() string { return ".write-" + strings.ToLower(rand.Text()[:16]) }

// copyEntry copies a file, link or folder to a name that is free, with mode,
// times and, where allowed, owner.
func copyEntry(ctx context.Context, from int, oldName string, to int, newName string, depth int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	status, err := stat(from, oldName)
	if err != nil {
		return err
	}
	switch kind(status) {
	case unix.S_IFDIR:
		err = copyFolder(ctx, from, oldName, to, newName, depth)
	case unix.S_IFREG:
		err = copyFile(ctx, from, oldName, to, newName)
	case unix.S_IFLNK:
		err = copyLink(from, oldName, to, newName)
	default:
		return &daemon.ArgumentError{Reason: "only files, folders and links move between file systems: " + oldName}
	}
	if err != nil {
		return err
	}
	return copyAttributes(status, to, newName)
}

func copyAttributes(status unix.Stat_t, to int, newName string) error {
	// A guest without the right to give files away keeps them as its own.
	_ = unix.Fchownat(to, newName, int(status.Uid), int(status.Gid), unix.AT_SYMLINK_NOFOLLOW)
	if kind(status) != unix.S_IFLNK {
		if err := setMode(to, newName, status.Mode&0o7777); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(to, newName, []unix.Timespec{status.Atim, status.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

func copyFolder(ctx context.Context, from int, oldName string, to int, newName string, depth int) error {
	if err := unix.Mkdirat(to, newName, 0o700); err != nil {
		return err
	}
	source, entries, err := readFolderAt(from, oldName, depth)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := openFolderAt(to, newName, depth)
	if err != nil {
		return err
	}
	defer target.Close()
	for _, e := range entries {
		if err := copyEntry(ctx, int(source.Fd()), e.base, int(target.Fd()), e.base, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(ctx context.Context, from int, oldName string, to int, newName string) error {
	source, _, err := openFileAt(from, oldName)
	if err != nil {
		return err
	}
	defer source.Close()
	fd, err := unix.Openat(to, newName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	target := os.NewFile(uintptr(fd), newName)
	_, err = io.Copy(target, &cancelReader{ctx: ctx, source: source})
	return errors.Join(err, target.Close())
}

// cancelReader ends a long copy with its caller.
type cancelReader struct {
	ctx    context.Context
	source io.Reader
}

// Read implements io.Reader.
func (r *cancelReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, r.ctx.Err()
	}
	return r.source.Read(p)
}

func copyLink(from int, oldName string, to int, newName string) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(from, oldName, target)
	if err != nil {
		return err
	}
	return unix.Symlinkat(string(target[:n]), to, newName)
}
