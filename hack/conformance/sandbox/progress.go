package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// sayEvery is how often a run says how far it is.
const sayEvery = 30 * time.Second

// collected keeps what the rows' program reports, and counts it.
type collected struct {
	mu            sync.Mutex
	output        bytes.Buffer
	lines, failed int
}

// Write implements io.Writer.
func (c *collected) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines += bytes.Count(text, []byte("\n"))
	c.failed += bytes.Count(text, []byte(`"ok":false`))
	return c.output.Write(text)
}

// report says how far it is until the context ends.
func (c *collected) report(ctx context.Context, name string, progress io.Writer) {
	began := time.Now()
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		// The first line is the plan.
		done, failed := max(0, c.lines-1), c.failed
		c.mu.Unlock()
		_, _ = fmt.Fprintf(progress, "  … %s: %d rows done, %d of them failed (%d s)\n", name, done, failed, int(time.Since(began).Seconds()))
	}
}
