// Package wire is how the daemon and a guest's agent speak over a stream: frames
// with a length before them, JSON in frames, and file content as frames of which
// an empty one is the last. It does not know what the stream is: a socket for a
// guest made of namespaces, a virtual serial port for a machine.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// RequestLimit bounds one JSON frame in bytes: argv and environment of a
	// program, which Linux bounds to less (contracts/iii-sandbox.md §3.2: 4 MiB).
	RequestLimit = 4 << 20
	// ResultLimit bounds the result of a file operation, in bytes: with the other
	// fields it must fit a message of the bus (contracts/iii-sandbox.md §4.1).
	ResultLimit = 14 << 20
	// ChunkSize is the size of the pieces in which file content travels.
	ChunkSize = 64 << 10
)

// headSize is the size of a frame's length, in bytes.
const headSize = 4

// WriteFrame writes a length in four bytes and the payload.
func WriteFrame(w io.Writer, payload []byte) error {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, len(payload)+headSize), uint32(len(payload)))
	_, err := w.Write(append(frame, payload...))
	return err
}

// ReadFrame reads one frame of at most limit bytes.
func ReadFrame(r io.Reader, limit int) ([]byte, error) {
	size, err := readHead(r, limit)
	if err != nil {
		return nil, err
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, NoEOF(err)
	}
	return payload, nil
}

// readInto reads one frame into a buffer that holds any, and returns its size.
func readInto(r io.Reader, buffer []byte) (int, error) {
	size, err := readHead(r, len(buffer))
	if err != nil {
		return 0, err
	}
	_, err = io.ReadFull(r, buffer[:size])
	return size, NoEOF(err)
}

func readHead(r io.Reader, limit int) (int, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > limit {
		return 0, fmt.Errorf("frame of %d bytes is over %d", size, limit)
	}
	return size, nil
}

// WriteJSON writes a value as one frame of at most RequestLimit.
func WriteJSON(w io.Writer, value any) error {
	payload, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if len(payload) > RequestLimit {
		return fmt.Errorf("request of %d bytes is over %d", len(payload), RequestLimit)
	}
	return WriteFrame(w, payload)
}

// ReadJSON reads a frame that WriteJSON wrote.
func ReadJSON(r io.Reader, value any) error {
	payload, err := ReadFrame(r, RequestLimit)
	if err != nil {
		return err
	}
	return json.Unmarshal(payload, value)
}

// NoEOF keeps the end of a connection from looking like the end of content.
func NoEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
