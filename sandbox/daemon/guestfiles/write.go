package guestfiles

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// Upload is a new content on its way to a path: a file of another name beside
// it. One of Commit and Abort ends it.
type Upload struct {
	file       *os.File
	folder     int
	temporary  string
	base       string
	mode       uint32
	committing bool
}

// Create begins to write a path (contracts/iii-sandbox.md §4.1).
func (t *Tree) Create(spec daemon.WriteSpec) (*Upload, error) {
	if spec.Parents {
		above, _ := split(spec.Path)
		if err := t.makeAll(above); err != nil {
			return nil, err
		}
	}
	folder, base, err := t.parentForNew(spec.Path)
	if err != nil {
		return nil, err
	}
	if status, err := stat(folder, base); err == nil && isDir(status) {
		_ = unix.Close(folder)
		return nil, daemon.ErrWrongType
	}
	return createBeside(folder, base, spec.Mode)
}

// createBeside takes over the folder's descriptor.
func createBeside(folder int, base string, mode uint32) (*Upload, error) {
	temporary := temporaryName()
	fd, err := unix.Openat(folder, temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		_ = unix.Close(folder)
		return nil, err
	}
	return &Upload{file: os.NewFile(uintptr(fd), temporary), folder: folder, temporary: temporary, base: base, mode: mode}, nil
}

// Write implements io.Writer.
func (u *Upload) Write(p []byte) (int, error) { return u.file.Write(p) }

// Commit gives the content its mode and its name.
func (u *Upload) Commit() error {
	err := errors.Join(unix.Fchmod(int(u.file.Fd()), u.mode&0o7777), u.file.Sync())
	if err == nil {
		err = unix.Renameat(u.folder, u.temporary, u.folder, u.base)
	}
	u.committing = err == nil
	u.Abort()
	return err
}

// Abort removes what was not committed. Calling it again does nothing.
func (u *Upload) Abort() {
	if u.folder < 0 {
		return
	}
	_ = u.file.Close()
	if !u.committing {
		_ = unix.Unlinkat(u.folder, u.temporary, 0)
	}
	_ = unix.Close(u.folder)
	u.folder = -1
}
