package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// maxLinkCalls bounds the calls of a link at one time, far above what the
	// operator has in one guest.
	maxLinkCalls = 256
	// linkWriteWait bounds the writing of a packet: an operator that does not read
	// is gone.
	linkWriteWait = 10 * time.Second
	linkReadBytes = 64 << 10
)

// link is a connection with the operator. The program of guest/link holds it;
// the supervisor talks to that over a socket and serves the calls.
type link struct {
	home    folder
	program []byte // a wire.LinkProgram
	opened  chan bool
	stream  *os.File
	command *exec.Cmd

	writing sync.Mutex
	mutex   sync.Mutex
	calls   map[uint32]chan os.Signal
	ended   bool
}

// startLinks must be called on the main goroutine, like all that starts processes.
func (s *supervisor) startLinks() {
	s.mutex.Lock()
	wanted := s.wantedLinks
	s.wantedLinks = nil
	s.mutex.Unlock()
	for _, l := range wanted {
		if err := l.start(); err != nil {
			l.opened <- false
			continue
		}
		s.mutex.Lock()
		s.links[l] = true
		s.mutex.Unlock()
		go s.followLink(l)
	}
}

func (l *link) start() error {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	defer theirs.Close()
	if l.stream, err = socketFile(ends[0]); err != nil {
		return err
	}
	path := l.home.join(linkName)
	l.command = &exec.Cmd{
		Path: path, Args: []string{path}, Dir: "/", Env: os.Environ(), Stdin: bytes.NewReader(l.program),
		ExtraFiles: []*os.File{theirs}, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := l.command.Start(); err != nil {
		l.stream.Close()
		return err
	}
	return nil
}

// followLink serves a link until it ends, and ends the program.
func (s *supervisor) followLink(l *link) {
	reader := bufio.NewReaderSize(l.stream, linkReadBytes)
	_ = l.stream.SetReadDeadline(time.Now().Add(linkWait))
	first, err := wire.ReadLinkPacket(reader)
	opened := err == nil && first.Kind == wire.LinkPong
	if opened {
		s.replaceLinks(l)
		_ = l.stream.SetReadDeadline(time.Time{})
	}
	l.opened <- opened
	for opened {
		next, err := wire.ReadLinkPacket(reader)
		if err != nil || !l.received(next) {
			break
		}
	}
	l.end()
	_ = l.command.Process.Kill()
	_ = l.command.Wait()
	s.mutex.Lock()
	delete(s.links, l)
	s.mutex.Unlock()
}

// replaceLinks ends the links that came before one: the operator has another, or
// is another.
func (s *supervisor) replaceLinks(by *link) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for l := range s.links {
		if l != by {
			l.end()
		}
	}
}

// end cancels the calls of a link: nobody will hear their answers.
func (l *link) end() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.ended = true
	_ = l.stream.Close()
	for _, stop := range l.calls {
		cancelCall(stop)
	}
}

func cancelCall(stop chan os.Signal) {
	select {
	case stop <- syscall.SIGTERM:
	default: // it is canceled already
	}
}

// received acts on a packet. False: it is none of this protocol.
func (l *link) received(next wire.LinkPacket) bool {
	switch next.Kind {
	case wire.LinkPing:
		l.send(wire.LinkPacket{Kind: wire.LinkPong})
	case wire.LinkCancel:
		l.mutex.Lock()
		if stop, known := l.calls[next.Number]; known {
			cancelCall(stop)
		}
		l.mutex.Unlock()
	case wire.LinkCall:
		l.begin(next)
	default:
		return false
	}
	return true
}

// begin serves a call beside the others.
func (l *link) begin(asked wire.LinkPacket) {
	stop := make(chan os.Signal, 1)
	l.mutex.Lock()
	_, taken := l.calls[asked.Number]
	refused := taken || l.ended || len(l.calls) >= maxLinkCalls
	if !refused {
		l.calls[asked.Number] = stop
	}
	l.mutex.Unlock()
	if refused {
		l.send(wire.LinkPacket{Kind: wire.LinkNotRun, Number: asked.Number})
		return
	}
	go func() {
		answer := l.call(asked, stop)
		l.mutex.Lock()
		delete(l.calls, asked.Number)
		l.mutex.Unlock()
		l.send(answer)
	}()
}

// call has a waiting process serve a call. What that needs and is not there, or a
// request that is at fault, is for an execution of the agent to find.
func (l *link) call(asked wire.LinkPacket, stop <-chan os.Signal) wire.LinkPacket {
	begun := time.Now()
	notRun := wire.LinkPacket{Kind: wire.LinkNotRun, Number: asked.Number}
	var request wire.CallRequest
	if json.Unmarshal(asked.Body, &request) != nil || checkCall(request) != nil || !isPlanted(l.home, request) {
		return notRun
	}
	interpreter, failure := findInterpreter(request.Language)
	if failure != nil {
		return notRun
	}
	warm := newWarmCall(l.home, interpreter, request, begun)
	warm.stop = stop
	frame, how := warm.do()
	if how != warmDone {
		return notRun
	}
	return wire.LinkPacket{Kind: wire.LinkReply, Number: asked.Number, Body: frame}
}

// send writes a packet; where that fails the link is at its end.
func (l *link) send(packet wire.LinkPacket) {
	line, err := packet.Append(nil)
	if err != nil {
		return // a framed reply fits
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.stream.SetWriteDeadline(time.Now().Add(linkWriteWait))
	if _, err := l.stream.Write(line); err != nil {
		_ = l.stream.Close()
	}
}
