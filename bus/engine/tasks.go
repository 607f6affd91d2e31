package engine

import (
	"context"
	"sync"
)

// tasks counts the goroutines of an engine. A plain WaitGroup does not do: a
// connection may arrive while Close already waits.
type tasks struct {
	mu      sync.Mutex
	running sync.WaitGroup
	refused bool
}

// begin admits one task; on true the caller owes one end.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused {
		return false
	}
	t.running.Add(1)
	return true
}

func (t *tasks) end() { t.running.Done() }

// start runs a task in the background, unless the engine is closing.
func (t *tasks) start(task func()) bool {
	if !t.begin() {
		return false
	}
	go func() {
		defer t.end()
		task()
	}()
	return true
}

// refuse admits no more tasks.
func (t *tasks) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = true
}

// wait returns when all tasks ended or the context does.
func (t *tasks) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.running.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
