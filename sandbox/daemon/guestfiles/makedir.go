package guestfiles

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// parentMode is that of folders that are made on the way.
const parentMode = 0o755

// MakeDir makes a folder with exactly the mode. With Parents a folder that is
// there already is left as it is, and reported as not created.
func (t *Tree) MakeDir(spec daemon.MakeDirSpec) (bool, error) {
	if spec.Parents {
		if t.isFolder(spec.Path) {
			return false, nil
		}
		above, _ := split(spec.Path)
		if err := t.makeAll(above); err != nil {
			return false, err
		}
	}
	folder, base, err := t.parentForNew(spec.Path)
	if err != nil {
		return false, err
	}
	defer unix.Close(folder)
	if err := unix.Mkdirat(folder, base, spec.Mode); err != nil {
		return false, err
	}
	// Past the umask. Whoever swapped the name since is served no link.
	return true, setMode(folder, base, spec.Mode)
}

func (t *Tree) isFolder(name string) bool {
	fd, err := t.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// makeAll makes a folder and those above it where they are missing.
func (t *Tree) makeAll(name string) error {
	fd, err := t.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		return unix.Close(fd)
	}
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	above, base := split(name)
	if err := t.makeAll(above); err != nil {
		return err
	}
	if base == "." || base == ".." {
		return nil // what is above it is there now
	}
	folder, base, err := t.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(folder)
	if err := unix.Mkdirat(folder, base, parentMode); err != nil && (!errors.Is(err, unix.EEXIST) || !t.isFolder(name)) {
		return err
	}
	return nil
}
