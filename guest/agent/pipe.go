package main

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// pipe is one descriptor of a guest program: theirs is passed on and blocking,
// as programs expect; ours is non-blocking, so that reads can be given up.
type pipe struct {
	ours, theirs *os.File
}

func newPipe(weRead bool) (*pipe, error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	ours, theirs := ends[0], ends[1]
	if !weRead {
		ours, theirs = theirs, ours
	}
	if err := syscall.SetNonblock(ours, true); err != nil {
		return nil, errors.Join(err, syscall.Close(ours), syscall.Close(theirs))
	}
	return &pipe{ours: os.NewFile(uintptr(ours), "ours"), theirs: os.NewFile(uintptr(theirs), "theirs")}, nil
}

// pipes are all those of one program, by the positions below.
type pipes []*pipe

const (
	channelPipe  = iota // its descriptor 4
	stdoutPipe          // its descriptor 1
	stderrPipe          // its descriptor 2
	envelopePipe        // its descriptor 3
	stdinPipe           // its descriptor 0, if it has input
)

func openPipes(withStdin bool) (pipes, error) {
	weRead := []bool{channelPipe: true, stdoutPipe: true, stderrPipe: true, envelopePipe: false}
	if withStdin {
		weRead = append(weRead, false)
	}
	var all pipes
	for _, reading := range weRead {
		opened, err := newPipe(reading)
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, opened)
	}
	return all, nil
}

func (p pipes) close() {
	for _, opened := range p {
		opened.ours.Close()
		opened.theirs.Close()
	}
}

// feed writes data and closes the pipe. A program that does not read, or that
// ends early, is no error.
func (p *pipe) feed(data []byte) {
	defer p.ours.Close()
	_, _ = p.ours.Write(data)
}

// drain copies the program's output until it ends or drainUntil gives up.
func (p *pipe) drain(target io.Writer, done chan<- struct{}) {
	defer func() { done <- struct{}{} }()
	_, _ = io.Copy(onlyWriter{target}, p.reader())
}

// reader loses nothing that is in the pipe when reading is given up.
func (p *pipe) reader() io.Reader { return &pending{file: p.ours} }

// drainUntil lets pending reads end at the given time.
func (p *pipe) drainUntil(limit time.Time) { _ = p.ours.SetReadDeadline(limit) }

// onlyWriter hides other methods from io.Copy, which would bypass the capture.
type onlyWriter struct{ io.Writer }
