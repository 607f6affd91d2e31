package main

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
)

// maxControlBytes bounds one message between a supervisor and its keepers.
const maxControlBytes = 4 << 10

// socketPair returns two ends of a socket that keeps messages apart and reports
// its other end's death; neither is inherited unless it is passed on.
func socketPair() (ours, theirs *os.File, err error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(ends[1]), "theirs")
	ours, err = socketFile(ends[0])
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// sendOver sends a message with the descriptors of files. It never waits: a
// receiver that does not keep up is as good as gone.
func sendOver(socket *os.File, text []byte, files ...*os.File) error {
	descriptors := make([]int, 0, len(files))
	for _, file := range files {
		descriptor, err := descriptorOf(file)
		if err != nil {
			return err
		}
		descriptors = append(descriptors, descriptor)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Control(func(fd uintptr) { sendErr = sendDescriptors(int(fd), text, descriptors) })
	runtime.KeepAlive(files)
	return errors.Join(err, sendErr)
}

// descriptorOf is valid as long as the file is kept. File.Fd would make the
// descriptor blocking, for the other end of its sharing too.
func descriptorOf(file *os.File) (int, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	descriptor := -1
	err = raw.Control(func(fd uintptr) { descriptor = int(fd) })
	return descriptor, err
}

func sendDescriptors(socket int, text []byte, descriptors []int) error {
	var rights []byte
	if len(descriptors) > 0 {
		rights = syscall.UnixRights(descriptors...)
	}
	for {
		err := syscall.Sendmsg(socket, text, rights, nil, syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT)
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// receiveOver waits for one message. io.EOF says that the other end is gone.
func receiveOver(socket *os.File) (text []byte, descriptors []int, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	text, ancillary := make([]byte, maxControlBytes), make([]byte, syscall.CmsgSpace(4*4))
	var size, rights int
	var receiveErr error
	err = raw.Read(func(fd uintptr) bool {
		receiveErr = syscall.EINTR
		for errors.Is(receiveErr, syscall.EINTR) {
			size, rights, _, _, receiveErr = syscall.Recvmsg(int(fd), text, ancillary, syscall.MSG_CMSG_CLOEXEC|syscall.MSG_DONTWAIT)
		}
		return !errors.Is(receiveErr, syscall.EAGAIN)
	})
	switch {
	case err != nil || receiveErr != nil:
		return nil, nil, errors.Join(err, receiveErr)
	case size == 0:
		return nil, nil, io.EOF
	}
	descriptors, err = parseRights(ancillary[:rights])
	return text[:size], descriptors, err
}

func parseRights(ancillary []byte) (descriptors []int, err error) {
	messages, err := syscall.ParseSocketControlMessage(ancillary)
	if err != nil {
		return nil, os.NewSyscallError("parsing a control message", err)
	}
	for i := range messages {
		if found, err := syscall.ParseUnixRights(&messages[i]); err == nil {
			descriptors = append(descriptors, found...)
		}
	}
	return descriptors, nil
}

// socketFile makes a file of a connected socket whose reads can be given up.
func socketFile(fd int) (*os.File, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("setnonblock", err)
	}
	return os.NewFile(uintptr(fd), "connection"), nil
}
