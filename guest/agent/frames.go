package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// What a host sends on its descriptor 4: one letter, four bytes of length (big
// endian), the body.
const (
	frameResult  = 'R' // the result as JSON
	frameFailure = 'E' // a wire.Failure as JSON
	frameDone    = 'D' // nothing more is worth waiting for
	frameReady   = 'Y' // the handler is loaded and waits for calls; a readiness as JSON
	frameBegun   = 'B' // the call has arrived and begins now

	frameKinds       = "REDYB"
	frameHeaderBytes = 5
	// maxFrameBytes lets a result that is too large be told from a forgery.
	maxFrameBytes = 1 << 30
)

// readiness is the body of frameReady.
type readiness struct {
	// forks: the process can be forked for each call.
	Forks bool `json:"forks"`
	// obstacle: what keeps it from that.
	Obstacle string `json:"obstacle"`
}

type frame struct {
	kind byte
	body []byte
	// size: bytes of the body, which is dropped if over wire.MaxResultBytes.
	size int
}

func (f frame) isResult() bool { return f.kind == frameResult || f.kind == frameFailure }

var errFrame = errors.New("malformed frame from the interpreter")

// readFrames delivers frames until the channel ends, then closes out.
func readFrames(source io.Reader, out chan<- frame) {
	defer close(out)
	for {
		next, err := readFrame(source)
		if err != nil {
			return
		}
		out <- next
	}
}

func readFrame(source io.Reader) (frame, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(source, header[:]); err != nil {
		return frame{}, err
	}
	size := int64(binary.BigEndian.Uint32(header[1:]))
	next := frame{kind: header[0], size: int(size)}
	switch {
	case !strings.ContainsRune(frameKinds, rune(next.kind)), size > maxFrameBytes:
		return frame{}, fmt.Errorf("%w: kind %q, %d bytes", errFrame, next.kind, size)
	case size > wire.MaxResultBytes:
		_, err := io.CopyN(io.Discard, source, size)
		return next, err
	}
	next.body = make([]byte, size)
	_, err := io.ReadFull(source, next.body)
	return next, err
}
