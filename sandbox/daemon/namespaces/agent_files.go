package namespaces

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// serveFile answers a file request. Paths are resolved here, after the root has
// moved, so that no link leads out of the guest.
func serveFile(session *net.UnixConn, r request) {
	path := filepath.Join("/", r.Path)
	if r.Path != "" && r.Path[0] == '/' {
		path = r.Path
	}
	var err error
	switch r.Op {
	case opStat:
		err = serveStat(session, path)
	case opOpen:
		err = serveOpen(session, path)
	case opWrite:
		err = serveWrite(session, path, r)
	default:
		err = fmt.Errorf("unknown operation %q", r.Op)
	}
	if err != nil {
		_ = writeJSON(session, reply{Failure: classify(err), Message: err.Error()})
		// Content still on its way would turn the close into a reset, and the
		// answer would be lost.
		_ = session.CloseWrite()
		_, _ = io.Copy(io.Discard, session)
	}
}

func serveStat(session *net.UnixConn, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return writeJSON(session, reply{Info: describe(info)})
}

func describe(info fs.FileInfo) *fileInfo {
	mode := uint32(info.Mode().Perm())
	if status, ok := info.Sys().(*syscall.Stat_t); ok {
		mode = status.Mode & 0o7777
	}
	return &fileInfo{
		Name: info.Name(), IsDir: info.IsDir(), IsSymlink: info.Mode()&fs.ModeSymlink != 0,
		Size: info.Size(), Mode: mode, ModTimeUnix: info.ModTime().Unix(),
	}
}

// serveOpen sends a regular file. It is opened without blocking, as a pipe of
// that name would otherwise hold the agent.
func serveOpen(session *net.UnixConn, path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return daemon.ErrWrongType
	}
	if err := writeJSON(session, reply{Info: describe(info)}); err != nil {
		return nil // the daemon hung up
	}
	// A cut is seen by the missing end mark.
	_, _ = sendChunks(session, file)
	return nil
}

func serveWrite(session *net.UnixConn, path string, r request) error {
	file, err := createBeside(path, r)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		_ = file.Close()
		if !kept {
			_ = os.Remove(file.Name())
		}
	}()
	if err := writeJSON(session, reply{}); err != nil {
		return nil // the daemon hung up
	}
	written, err := io.Copy(file, &chunkReader{source: session})
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	if err = errors.Join(err, unix.Fchmod(int(file.Fd()), r.Mode&0o7777), file.Sync()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	kept = true
	return writeJSON(session, reply{Written: written})
}

// createBeside makes a temporary file in the folder of path.
func createBeside(path string, r request) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return nil, daemon.ErrWrongType
	}
	parent := filepath.Dir(path)
	if r.Parents {
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return nil, err
		}
	}
	file, err := os.CreateTemp(parent, ".write-*")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, daemon.ErrParentMissing
	}
	return file, err
}
