package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// What goes over the supervisor's socket: one letter, four bytes of length (big
// endian), the body.
const (
	// To the supervisor.
	askCall    = 'H' // a pool's key: who takes this connection's call?
	askWarm    = 'W' // a warmSpec as JSON: make processes ready for it
	askUnplant = 'U' // a source's digest: end its processes
	askRenew   = 'F' // replace what is ready: the guest has changed
	askNothing = '?' // is this a supervisor?
	askQuit    = 'Q' // make way for another supervisor
	askLink    = 'L' // a wire.LinkProgram as JSON: open a link

	// From the supervisor.
	answerCold    = 'C' // there is no process for this call, or no link
	answerUnknown = 'S' // nor is there a pool: say with askWarm what it would be
	answerWait    = 'W' // a process is being made for this call
	answerDone    = 'O' // whatever else was asked for has been seen to

	// From a keeper.
	answerAccepted = 'A' // the keeper's process id: send the call
	answerTaken    = 'T' // from here on the handler may have run
	answerNotBegun = 'N' // but, after all, it has not
	answerReply    = 'P' // the framed reply

	// To a keeper.
	sendCall   = 'R' // a callHead as JSON and a line break, then what the host reads
	sendCancel = 'X'

	maxAskBytes = 4 << 20 // a warmSpec holds a whole environment
)

type packet struct {
	kind byte
	body []byte
}

var errPacket = errors.New("malformed packet")

func readPacket(source io.Reader, limit int) (packet, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(source, header[:]); err != nil {
		return packet{}, err
	}
	size := binary.BigEndian.Uint32(header[1:])
	if int64(size) > int64(limit) {
		return packet{}, fmt.Errorf("%w: %d bytes", errPacket, size)
	}
	body := make([]byte, size)
	_, err := io.ReadFull(source, body)
	return packet{kind: header[0], body: body}, err
}

// writePacket writes the parts as one body.
func writePacket(target io.Writer, kind byte, parts ...[]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	whole := make([]byte, frameHeaderBytes, frameHeaderBytes+size)
	whole[0] = kind
	binary.BigEndian.PutUint32(whole[1:], uint32(size)) //nolint:gosec // Bounded by what a request may hold.
	for _, part := range parts {
		whole = append(whole, part...)
	}
	_, err := target.Write(whole)
	return err
}

// callHead is what a keeper needs to know of a call.
type callHead struct {
	TimeoutMs int64 `json:"timeoutMs"`
	// elapsedMs: of the timeout, before the keeper got the call.
	ElapsedMs int64 `json:"elapsedMs"`
	// waitedMs: of that, for a process to be made, which counts as the start of an
	// interpreter for this call does.
	WaitedMs int64 `json:"waitedMs,omitempty"`
	LogLimit int   `json:"logLimit"`
}

// hostLine is the first line of what the host reads of a call; the payload follows.
type hostLine struct {
	Context handlerContext    `json:"context"`
	Env     map[string]string `json:"env,omitempty"`
}

// maxCallBytes bounds a sendCall: a request and what is added to it.
const maxCallBytes = wire.MaxRequestBytes + 1<<20
