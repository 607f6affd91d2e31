package guestfiles

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// Stat describes a path and does not follow a final link.
func (t *Tree) Stat(name string) (daemon.FileInfo, error) {
	_, base := split(name)
	fd, err := t.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return daemon.FileInfo{}, err
	}
	defer unix.Close(fd)
	var status unix.Stat_t
	if err := unix.Fstat(fd, &status); err != nil {
		return daemon.FileInfo{}, err
	}
	if base == "" {
		base = "/"
	}
	return describe(base, status), nil
}

func describe(base string, status unix.Stat_t) daemon.FileInfo {
	return daemon.FileInfo{
		Name: base, IsDir: isDir(status), IsSymlink: kind(status) == unix.S_IFLNK,
		Size: status.Size, Mode: status.Mode & 0o7777, ModTime: time.Unix(status.Mtim.Sec, 0),
	}
}

// List describes what a folder holds. A link to a folder is not one.
func (t *Tree) List(name string) ([]daemon.FileInfo, error) {
	fd, err := t.open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	folder := os.NewFile(uintptr(fd), name)
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	entries := make([]daemon.FileInfo, 0, len(names))
	for _, base := range names {
		status, err := stat(fd, base)
		if errors.Is(err, unix.ENOENT) {
			continue // gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, describe(base, status))
	}
	return entries, nil
}

// OpenFile opens a regular file for reading and follows links. It is opened
// without blocking, as a pipe of that name would otherwise hold the caller.
func (t *Tree) OpenFile(name string) (*os.File, daemon.FileInfo, error) {
	fd, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, daemon.FileInfo{}, err
	}
	_, base := split(name)
	return regular(fd, base)
}

// openFileAt is OpenFile for a name of a folder, which must not be a link.
func openFileAt(folder int, base string) (*os.File, daemon.FileInfo, error) {
	fd, err := unix.Openat(folder, base, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, daemon.FileInfo{}, err
	}
	return regular(fd, base)
}

// regular takes over a descriptor, which must be that of a regular file.
func regular(fd int, base string) (*os.File, daemon.FileInfo, error) {
	var status unix.Stat_t
	err := unix.Fstat(fd, &status)
	if err == nil && kind(status) != unix.S_IFREG {
		err = daemon.ErrWrongType
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, daemon.FileInfo{}, err
	}
	return os.NewFile(uintptr(fd), base), describe(base, status), nil
}
