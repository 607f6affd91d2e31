package launch

import "sync"

// Tail keeps the last bytes that were written to it: what a process says when it
// breaks.
type Tail struct {
	// Limit is how many bytes are kept.
	Limit int

	mu    sync.Mutex
	bytes []byte
}

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - t.Limit; over > 0 {
		t.bytes = t.bytes[over:]
	}
	return len(p), nil
}

// String is what is kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.bytes)
}
