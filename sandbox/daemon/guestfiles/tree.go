// Package guestfiles does what sandbox::fs::* asks for inside a guest's root. The
// in-guest agent of a back end calls it.
//
// Every path is resolved by the kernel below one folder, with links and ".."
// confined to it, and every act goes through descriptors so found. Hence nothing
// that a guest does meanwhile leads an operation out of the root, or one on a
// tree out of that tree.
package guestfiles

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// Tree is a root and all below it. Its methods may be called concurrently.
type Tree struct{ root int }

// Open takes hold of a root.
func Open(directory string) (*Tree, error) {
	root, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Tree{root: root}, nil
}

// Close lets go of the root.
func (t *Tree) Close() error { return unix.Close(t.root) }

// resolveAttempts is how often a path is tried that somebody renames parts of:
// the kernel gives up at once rather than resolve it wrongly.
const resolveAttempts = 64

// open resolves a path below the root. It enters no /proc link, which would lead
// to a process's own idea of a file.
func (t *Tree) open(name string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	for attempt := 0; ; attempt++ {
		fd, err := unix.Openat2(t.root, name, &how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) && attempt < resolveAttempts {
			continue
		}
		return fd, err
	}
}

// parent resolves the folder in which a path's last name stands. What that name
// is remains open.
func (t *Tree) parent(name string) (folder int, base string, err error) {
	above, base := split(name)
	if base == "" || base == "." || base == ".." {
		return -1, "", &daemon.ArgumentError{Reason: "path does not end in a name: " + name}
	}
	folder, err = t.open(above, unix.O_PATH|unix.O_DIRECTORY)
	return folder, base, err
}

// parentForNew is parent for a path that need not exist.
func (t *Tree) parentForNew(name string) (folder int, base string, err error) {
	folder, base, err = t.parent(name)
	if errors.Is(err, unix.ENOENT) {
		err = daemon.ErrParentMissing
	}
	return folder, base, err
}

// split cuts the last name off a path, without resolving anything: in a path
// with links "a/.." need not be ".".
func split(name string) (above, base string) {
	name = strings.TrimRight(name, "/")
	cut := strings.LastIndexByte(name, '/') + 1
	if cut == 0 {
		return "/", name
	}
	return name[:cut], name[cut:]
}

// stat describes a name of a folder and follows no link.
func stat(folder int, base string) (unix.Stat_t, error) {
	var status unix.Stat_t
	err := ignoringInterrupts(func() error {
		return unix.Fstatat(folder, base, &status, unix.AT_SYMLINK_NOFOLLOW)
	})
	return status, err
}

func kind(status unix.Stat_t) uint32 { return status.Mode & unix.S_IFMT }

func isDir(status unix.Stat_t) bool { return kind(status) == unix.S_IFDIR }

func ignoringInterrupts(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
