package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// capture keeps the beginning (60 %) and the end (40 %) of a stream, as much of
// either as its limit allows (contracts/code-runner.md §18, K12), and counts
// the rest. Safe for concurrent use.
type capture struct {
	mutex sync.Mutex
	limit int
	total int64
	head  []byte
	tail  []byte
}

func newCapture(limit int) *capture { return &capture{limit: limit} }

func (c *capture) headLimit() int { return c.limit * 6 / 10 }
func (c *capture) tailLimit() int { return c.limit - c.headLimit() }

// Write implements io.Writer; it never fails.
func (c *capture) Write(data []byte) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	written := len(data)
	c.total += int64(written)
	if room := c.headLimit() - len(c.head); room > 0 {
		taken := min(room, len(data))
		c.head = append(c.head, data[:taken]...)
		data = data[taken:]
	}
	c.tail = append(c.tail, data...)
	// Trimming only now and then keeps the cost of a write constant.
	if len(c.tail) > 2*c.tailLimit()+4096 {
		c.tail = append([]byte(nil), c.tail[len(c.tail)-c.tailLimit():]...)
	}
	return written, nil
}

// text returns what was kept, with a marker where something is missing.
func (c *capture) text() (text string, truncated bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.total <= int64(c.limit) {
		return toText(append(append([]byte(nil), c.head...), c.tail...)), false
	}
	head := cutEnd(c.head)
	tail := cutStart(c.tail[max(0, len(c.tail)-c.tailLimit()):])
	missing := c.total - int64(len(head)) - int64(len(tail))
	return toText(head) + marker(missing) + toText(tail), true
}

// end returns at most limit bytes of the stream's end.
func (c *capture) end(limit int) string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	kept := append(append([]byte(nil), c.head...), c.tail...)
	return toText(cutStart(kept[max(0, len(kept)-limit):]))
}

func marker(missing int64) string {
	return fmt.Sprintf("\n[... %d bytes left out ...]\n", missing)
}

func toText(data []byte) string { return strings.ToValidUTF8(string(data), "\uFFFD") }

// cutEnd removes a character that is cut off at the end.
func cutEnd(data []byte) []byte {
	for back := 1; back <= min(utf8.UTFMax, len(data)); back++ {
		last := data[len(data)-back:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return data[:len(data)-back]
			}
			break
		}
	}
	return data
}

// cutStart removes the rest of a character that is cut off at the start.
func cutStart(data []byte) []byte {
	skip := 0
	for skip < min(utf8.UTFMax, len(data)) && !utf8.RuneStart(data[skip]) {
		skip++
	}
	return data[skip:]
}

// shorten cuts a text as capture would have.
func shorten(text string, limit int) string {
	c := newCapture(limit)
	_, _ = io.WriteString(c, text)
	shortened, _ := c.text()
	return shortened
}

// reset forgets everything.
func (c *capture) reset() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.total, c.head, c.tail = 0, nil, nil
}
