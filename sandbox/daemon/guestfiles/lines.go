package guestfiles

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// binaryProbe is how much of a file is looked at for a NUL byte, in bytes
// (contracts/iii-sandbox.md §4).
const binaryProbe = 8 << 10

// isBinary looks at the start of a file without taking it.
func isBinary(r *bufio.Reader) bool {
	start, _ := r.Peek(binaryProbe)
	return bytes.IndexByte(start, 0) >= 0
}

// line is one line of a file.
type line struct {
	// content is without the line's end.
	content []byte
	// ending is "\n", "\r\n" or, at the end of a file, empty.
	ending string
	// cut says that content is only the start of the line.
	cut bool
}

// readLine returns the next line, of which it keeps at most limit bytes. Its
// error is io.EOF after the last line.
func readLine(r *bufio.Reader, limit int) (line, error) {
	var next line
	for {
		piece, err := r.ReadSlice('\n')
		room := limit - len(next.content)
		if len(piece) > room+len("\r\n") {
			next.cut = true
		}
		next.content = append(next.content, piece[:min(len(piece), max(room, 0)+len("\r\n"))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(next.content) == 0) {
			return line{}, err
		}
		if err == nil && next.cut {
			next.ending = "\n"
		}
		next.trim(limit)
		return next, nil
	}
}

// trim takes the line's end off.
func (l *line) trim(limit int) {
	if !l.cut {
		for _, ending := range []string{"\r\n", "\n"} {
			if bytes.HasSuffix(l.content, []byte(ending)) {
				l.content, l.ending = l.content[:len(l.content)-len(ending)], ending
				break
			}
		}
	}
	if len(l.content) > limit {
		l.content, l.cut = l.content[:limit], true
	}
}
