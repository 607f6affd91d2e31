package wire

import (
	"encoding/binary"
	"errors"
	"io"
)

// File content travels as frames; an empty frame ends it. A connection that
// ends without it was cut, which plain end-of-file could not tell.

// SendChunks copies content to w. When the source fails the end mark is not
// written.
func SendChunks(w io.Writer, content io.Reader) error {
	// The length has its place before the content, so that nothing is copied.
	buffer := make([]byte, headSize+ChunkSize)
	for {
		n, err := content.Read(buffer[headSize:])
		if n > 0 {
			binary.BigEndian.PutUint32(buffer, uint32(n))
			if _, err := w.Write(buffer[:headSize+n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return WriteFrame(w, nil)
		}
		if err != nil {
			return err
		}
	}
}

// ChunkReader gives the content that SendChunks wrote. Content that was cut
// ends with io.ErrUnexpectedEOF.
type ChunkReader struct {
	// Source is the stream of frames.
	Source io.Reader

	// chunk is where chunks are read into, rest what was not taken of the last one.
	chunk []byte
	rest  []byte
	ended bool
}

// Read implements io.Reader.
func (c *ChunkReader) Read(p []byte) (int, error) {
	if err := c.fill(); err != nil {
		return 0, err
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// WriteTo implements io.WriterTo.
func (c *ChunkReader) WriteTo(w io.Writer) (written int64, err error) {
	for {
		err := c.fill()
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return written, err
		}
		n, err := w.Write(c.rest)
		written += int64(n)
		c.rest = c.rest[n:]
		if err != nil {
			return written, err
		}
	}
}

// fill reads a chunk unless there is something left of one.
func (c *ChunkReader) fill() error {
	if len(c.rest) > 0 {
		return nil
	}
	if c.ended {
		return io.EOF
	}
	if c.chunk == nil {
		c.chunk = make([]byte, ChunkSize)
	}
	size, err := readInto(c.Source, c.chunk)
	if err != nil {
		return NoEOF(err)
	}
	c.rest, c.ended = c.chunk[:size], size == 0
	if c.ended {
		return io.EOF
	}
	return nil
}
