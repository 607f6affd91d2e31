package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// stallReader reads an upload and ends it when nothing arrives for too long
// (contracts/iii-sandbox.md §4.1, S218). It remembers why it ended, because a
// Machine need not pass the reader's error on.
type stallReader struct {
	source io.Reader
	idle   time.Duration
	// abort unblocks a Read of the source.
	abort context.CancelFunc

	mu    sync.Mutex
	cause error
}

func newStallReader(source io.Reader, idle time.Duration, abort context.CancelFunc) *stallReader {
	return &stallReader{source: source, idle: idle, abort: abort}
}

// Read implements io.Reader.
func (r *stallReader) Read(p []byte) (int, error) {
	timer := time.AfterFunc(r.idle, func() {
		r.fail(fmt.Errorf("no data for %s", r.idle))
		r.abort()
	})
	n, err := r.source.Read(p)
	timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		r.fail(err)
	}
	return n, err
}

// fail keeps the first cause.
func (r *stallReader) fail(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause == nil {
		r.cause = cause
	}
}

// failure is what ended the upload early, nil when it came to its end.
func (r *stallReader) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cause
}
