package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	socketName = "socket"
	lockName   = "lock"
	// socketBacklog holds a burst until it is accepted; connecting to a full one
	// fails at once, and the call starts cold.
	socketBacklog = 1024
)

func (f folder) supervisor() string { return f.join("supervisor") }

// socketAddress is valid while the folder is open: a socket's path has a hundred
// bytes at most, and the private folder may lie deep.
func socketAddress(directory *os.File) *syscall.SockaddrUnix {
	return &syscall.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", directory.Fd(), socketName)}
}

// listen opens the supervisor's socket, in the place of one that a supervisor
// has left behind. The caller holds the lock.
func listen(home folder) (int, error) {
	directory, err := os.Open(home.supervisor())
	if err != nil {
		return -1, err
	}
	defer directory.Close()
	if err := os.RemoveAll(filepath.Join(home.supervisor(), socketName)); err != nil {
		return -1, err
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	// Nobody else may connect, not even for the moment until a chmod.
	before := syscall.Umask(0o177)
	err = syscall.Bind(fd, socketAddress(directory))
	syscall.Umask(before)
	if err == nil {
		err = syscall.Listen(fd, socketBacklog)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return -1, os.NewSyscallError("listen", err)
	}
	return fd, nil
}

var (
	errNoSupervisor = errors.New("no supervisor")
	// errStranger says that what listens is not this very agent.
	errStranger = errors.New("what listens is no agent of this version")
)

// dial connects to the supervisor. Its error is errStranger, besides the
// connection, if what listens is something else.
func dial(home folder) (*os.File, error) {
	directory, err := os.Open(home.supervisor())
	if err != nil {
		return nil, errNoSupervisor
	}
	defer directory.Close()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := syscall.Connect(fd, socketAddress(directory)); err != nil {
		_ = syscall.Close(fd)
		return nil, errors.Join(errNoSupervisor, err)
	}
	connection := os.NewFile(uintptr(fd), "supervisor")
	if !isAgent(fd) {
		return connection, errStranger
	}
	return connection, nil
}

// isAgent reports whether the other end runs this agent's own executable. A guest
// program can put a socket of its own into the place of the supervisor's, and
// would otherwise be sent the calls of others. The supervisor stays dumpable for
// this: the kernel shows the executable of no other process.
func isAgent(fd int) bool {
	peer, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return false
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", peer.Pid))
	if err != nil {
		return false
	}
	ours, err := os.Stat("/proc/self/exe")
	return err == nil && os.SameFile(theirs, ours)
}

// ask sends one request to the supervisor and waits until it has been seen to.
func ask(home folder, kind byte, body []byte) error {
	connection, err := dial(home)
	if err != nil {
		if connection != nil {
			connection.Close()
		}
		return err
	}
	defer connection.Close()
	_, err = exchange(connection, quickAnswer, kind, body)
	return err
}

func exchange(connection *os.File, limit time.Duration, kind byte, body []byte) (packet, error) {
	if err := connection.SetDeadline(time.Now().Add(limit)); err != nil {
		return packet{}, err
	}
	if err := writePacket(connection, kind, body); err != nil {
		return packet{}, err
	}
	return readPacket(connection, maxControlBytes)
}
