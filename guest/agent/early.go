package main

import (
	"io"
	"sync"
)

// tap passes a stream on to whoever it belongs to at the time.
type tap struct {
	mutex  sync.Mutex
	target io.Writer
}

// Write implements io.Writer.
func (t *tap) Write(data []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.target.Write(data)
}

func (t *tap) turn(target io.Writer) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.target = target
}

// earlyLogs are what was printed before there was a call to print it for. They
// belong to the first call that comes.
type earlyLogs struct {
	mutex  sync.Mutex
	logs   *capture
	errors *capture
}

func newEarlyLogs() *earlyLogs {
	return &earlyLogs{logs: newCapture(earlyLogsBytes), errors: newCapture(4 * stderrTailBytes)}
}

// give moves what there is to a call's captures.
func (e *earlyLogs) give(logs, errors *capture) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, each := range []struct{ from, to *capture }{{e.logs, logs}, {e.errors, errors}} {
		text, _ := each.from.text()
		_, _ = io.WriteString(each.to, text)
		each.from.reset()
	}
}
