package namespaces

import (
	"io"
)

// File content travels as frames; an empty frame ends it. A connection that
// ends without it was cut, which plain end-of-file could not tell.

// sendChunks copies content to w and returns how many bytes it was. When the
// source fails the end mark is not written.
func sendChunks(w io.Writer, content io.Reader) (int64, error) {
	buffer := make([]byte, chunkSize)
	var total int64
	for {
		n, err := content.Read(buffer)
		if n > 0 {
			if err := writeFrame(w, buffer[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if err == io.EOF {
			return total, writeFrame(w, nil)
		}
		if err != nil {
			return total, err
		}
	}
}

// chunkReader gives the content that sendChunks wrote. Content that was cut
// ends with io.ErrUnexpectedEOF.
type chunkReader struct {
	source io.Reader
	rest   []byte
	ended  bool
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if len(c.rest) == 0 && !c.ended {
		chunk, err := readFrame(c.source, chunkSize)
		if err != nil {
			return 0, noEOF(err)
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
