package main

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// gentleWait is how long an agent may take to end its program and answer
	// before both are killed from outside.
	gentleWait = 3 * time.Second
	// holderPoll is the pace at which a cancel looks whether it has worked.
	holderPoll = 5 * time.Millisecond
	// tombstoneAge is how long a cancel waits for a program that has yet to start.
	tombstoneAge = 15 * time.Minute
)

// cancel ends the program that runs under a token. The token's file stays behind
// if there is none, so that one that is only just starting does not start.
func cancel(home folder, request wire.CancelRequest) wire.Reply {
	if !isToken(request.Token) {
		return failed(badToken())
	}
	removeTombstones(home.running())
	path := home.token(request.Token)
	file, err := openToken(path)
	if err != nil {
		return failed(wire.Failf(wire.Internal, "opening the token's file: %v", err))
	}
	defer file.Close()
	if _, err := file.WriteString(canceledMark); err != nil {
		return failed(wire.Failf(wire.Internal, "marking the token: %v", err))
	}
	if holder := lockHolder(file); holder != 0 {
		if !endHolder(file, holder) {
			return failed(wire.Failf(wire.Internal, "the program does not end"))
		}
		_ = os.Remove(path)
	}
	return wire.Reply{}
}

// endHolder asks the agent that holds the lock to end its program and, if it
// does not, kills both.
func endHolder(file *os.File, pid int) bool {
	signalHolder(file, pid, syscall.SIGTERM)
	if awaitRelease(file, gentleWait) {
		return true
	}
	for _, child := range descendants(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	signalHolder(file, pid, syscall.SIGKILL)
	return awaitRelease(file, endDescendantsWait)
}

// signalHolder opens the process first and then makes sure that it still holds
// the lock, so that a number that was given to another process is not signaled.
func signalHolder(file *os.File, pid int, signal syscall.Signal) {
	process, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = process.Release() }()
	if lockHolder(file) == pid {
		_ = process.Signal(signal)
	}
}

func awaitRelease(file *os.File, limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(holderPoll)
	defer tick.Stop()
	for lockHolder(file) != 0 {
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}

// lockHolder is the process that has locked a token's file, as the kernel says
// it; 0 if there is none. The file's content could be anybody's.
func lockHolder(file *os.File) int {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &lock)
	if err != nil || lock.Type == syscall.F_UNLCK || lock.Pid <= 1 {
		return 0
	}
	return int(lock.Pid)
}

// removeTombstones deletes the files of programs that never started.
func removeTombstones(path string) {
	entries, _ := os.ReadDir(path)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < tombstoneAge {
			continue
		}
		removeIfUnlocked(filepath.Join(path, entry.Name()))
	}
}

func removeIfUnlocked(path string) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if lockHolder(file) == 0 {
		_ = os.Remove(path)
	}
}

func isToken(text string) bool { return isHex(text, 32) }

func badToken() *wire.Failure {
	return wire.Failf(wire.BadRequest, "token must be 32 lower-case hexadecimal digits")
}
