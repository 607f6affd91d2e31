package main

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// catchUp reads what a process that goes on has written until now, so that a call
// gets its own prints and no other's.
func (s *process) catchUp() {
	for _, stream := range []int{stdoutPipe, stderrPipe} {
		s.pipes[stream].drainUntil(time.Now())
	}
	<-s.drained
	<-s.drained
	for stream, target := range map[int]io.Writer{stdoutPipe: s.stdout, stderrPipe: s.stderr} {
		s.pipes[stream].drainUntil(time.Time{})
		go s.pipes[stream].drain(target, s.drained)
	}
}

// maxPending is more than a pipe holds: whoever prints for ever does not keep a
// call from ending.
const maxPending = 2 << 20

// pending reads from a pipe until its deadline, and after that what is in it: on a
// busy machine the deadline may pass before there was time to read.
type pending struct {
	file *os.File
	late int // bytes read after the deadline
}

// Read implements io.Reader.
func (p *pending) Read(buffer []byte) (int, error) {
	n, err := p.file.Read(buffer)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || p.late >= maxPending {
		return n, err
	}
	raw, rawErr := p.file.SyscallConn()
	if rawErr != nil {
		return 0, err
	}
	_ = raw.Control(func(fd uintptr) {
		for {
			n, rawErr = syscall.Read(int(fd), buffer)
			if !errors.Is(rawErr, syscall.EINTR) {
				return
			}
		}
	})
	if rawErr != nil || n <= 0 {
		return 0, err
	}
	p.late += n
	return n, nil
}
