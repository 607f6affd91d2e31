package wire

import "io"

// File content travels as frames; an empty frame ends it. A connection that
// ends without it was cut, which plain end-of-file could not tell.

// SendChunks copies content to w. When the source fails the end mark is not
// written.
func SendChunks(w io.Writer, content io.Reader) error {
	buffer := make([]byte, ChunkSize)
	for {
		n, err := content.Read(buffer)
		if n > 0 {
			if err := WriteFrame(w, buffer[:n]); err != nil {
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

	rest  []byte
	ended bool
}

// Read implements io.Reader.
func (c *ChunkReader) Read(p []byte) (int, error) {
	if len(c.rest) == 0 && !c.ended {
		chunk, err := ReadFrame(c.Source, ChunkSize)
		if err != nil {
			return 0, NoEOF(err)
		}
		c.rest, c.ended = chunk, len(chunk) == 0
	}
	if c.ended {
		return 0, io.EOF
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
