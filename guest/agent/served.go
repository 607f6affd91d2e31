package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// requestWait is how long a caller may take to send the call it has announced.
	requestWait = 5 * time.Second
	// answerWait bounds writing to a caller that does not read.
	answerWriteWait = 5 * time.Second
	// begunWait is how long a process may take to take a call up before it is
	// taken for stuck or stopped.
	begunWait = 2 * time.Second
)

// served is one call that came over a connection.
type served struct {
	host
	connection *os.File
	request    []byte // what the host reads
	logs       *capture
	errors     *capture
}

// accept receives a call. Until taken it has not happened: a caller that hears no
// more starts it in another way.
func (k *keeper) accept(connection *os.File) (*served, error) {
	_ = connection.SetDeadline(time.Now().Add(requestWait))
	if err := writePacket(connection, answerAccepted, []byte(strconv.Itoa(os.Getpid()))); err != nil {
		return nil, err
	}
	received, err := readPacket(connection, maxCallBytes)
	if err != nil {
		return nil, err
	}
	text, request, found := bytes.Cut(received.body, []byte("\n"))
	if received.kind != sendCall || !found {
		return nil, errPacket
	}
	var head callHead
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	return &served{
		host: host{
			home: k.home, timeout: milliseconds(head.TimeoutMs), elapsed: milliseconds(head.ElapsedMs), waited: milliseconds(head.WaitedMs),
			logLimit: head.LogLimit,
		},
		connection: connection, request: request,
		logs: newCapture(positiveOr(head.LogLimit, defaultLogLimit)), errors: newCapture(4 * stderrTailBytes),
	}, nil
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

// taken tells the caller that the call is under way from here on, and watches for
// its end.
func (s *served) taken() error {
	if err := writePacket(s.connection, answerTaken); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	s.stop = stop
	_ = s.connection.SetReadDeadline(time.Time{})
	go func() {
		// A cancel, or the end of whoever asked.
		_, _ = readPacket(s.connection, 0)
		stop <- syscall.SIGTERM
	}()
	return nil
}

// answer sends the reply; a caller that has gone misses it.
func (s *served) answer(reply wire.Reply, start string) {
	reply.Start = start
	frame, err := fit(reply)
	if err != nil {
		return
	}
	_ = s.connection.SetWriteDeadline(time.Now().Add(answerWriteWait))
	_ = writePacket(s.connection, answerReply, frame)
}

// notBegun lets the caller start the call in another way after all.
func (s *served) notBegun() { _ = writePacket(s.connection, answerNotBegun) }

// framed is the request as a process reads it that may be sent more.
func (s *served) framed() []byte {
	whole := make([]byte, 4, 4+len(s.request))
	binary.BigEndian.PutUint32(whole, uint32(len(s.request))) //nolint:gosec // Bounded by maxCallBytes.
	return append(whole, s.request...)
}

var errNotBegun = errors.New("the process did not take the call up")

// awaitBegun waits until the host has the call. Frames from before belong to
// nothing. An error means that it never will: the process has been ended first.
func (p *process) awaitBegun(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	exited := p.exited
	for {
		select {
		case next, open := <-p.frames:
			if !open {
				return p.neverBegun()
			}
			if next.kind == frameBegun {
				return nil
			}
		case <-exited:
			exited = nil
			p.lastFrames()
		case <-timer.C:
			return p.neverBegun()
		}
	}
}

// neverBegun ends the process and looks whether it had begun before.
func (p *process) neverBegun() error {
	p.kill()
	p.lastFrames()
	for next := range p.frames {
		if next.kind == frameBegun {
			return nil
		}
	}
	return errNotBegun
}
