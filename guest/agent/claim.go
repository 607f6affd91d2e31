package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const canceledMark = "canceled\n"

func (f folder) running() string { return f.join("running") }

// token is the path of a token's file. Its name is a digest, so that a program
// that lists the folder does not learn how to cancel another.
func (f folder) token(token string) string {
	digest := sha256.Sum256([]byte(token))
	return filepath.Join(f.running(), hex.EncodeToString(digest[:]))
}

// claim is what a cancel needs to find this process: a lock on the token's file,
// whose holder only the kernel names. Without a token there is no file, and only
// a SIGTERM sent to the agent itself ends the program.
type claim struct {
	stop chan os.Signal
	file *os.File
}

// claimToken must come before the program starts. A Canceled failure says that
// it must not.
func claimToken(home folder, token string) (*claim, *wire.Failure) {
	c := &claim{stop: make(chan os.Signal, 1)}
	signal.Notify(c.stop, syscall.SIGTERM)
	if token == "" {
		return c, nil
	}
	if failure := c.lock(home, token); failure != nil {
		c.release()
		return nil, failure
	}
	return c, nil
}

func (c *claim) lock(home folder, token string) *wire.Failure {
	if !isToken(token) {
		return badToken()
	}
	file, err := openToken(home.token(token))
	if err != nil {
		return wire.Failf(wire.Internal, "opening the token's file: %v", err)
	}
	c.file = file
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		c.file = nil
		file.Close()
		return wire.Failf(wire.BadRequest, "the token is in use")
	}
	// A cancel marks the file first and looks for the lock then, so one of the
	// two sides always sees the other.
	if mark, _ := io.ReadAll(file); len(mark) > 0 {
		return wire.Failf(wire.Canceled, "canceled before the start")
	}
	return nil
}

// release gives up the token; a cancel that waits for it takes that for the end.
func (c *claim) release() {
	signal.Stop(c.stop)
	if c.file != nil {
		_ = os.Remove(c.file.Name())
		c.file.Close()
	}
}

func openToken(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
