package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// replaceWait is how long an old supervisor may take to make way.
const replaceWait = 3 * time.Second

var (
	errServed = errors.New("there is a supervisor")
	errLocked = errors.New("another supervisor does not make way")
)

// lockSupervisor makes this process the one supervisor of its folder. The kernel
// gives the lock up when the process ends, however that comes about. errServed says
// that there is one that works; one that does not is ended.
func lockSupervisor(home folder) (*os.File, error) {
	if err := os.MkdirAll(home.supervisor(), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(home.supervisor(), lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if tryLock(file) {
		return file, nil
	}
	if err := ask(home, askNothing, nil); err == nil {
		file.Close()
		return nil, errServed
	}
	dismiss(home)
	if !awaitRelease(file, replaceWait) {
		signalHolder(file, lockHolder(file), syscall.SIGKILL)
		awaitRelease(file, endDescendantsWait)
	}
	if !tryLock(file) {
		file.Close()
		return nil, errLocked
	}
	return file, nil
}

func tryLock(file *os.File) bool {
	return syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}) == nil
}
