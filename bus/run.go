package bus

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Run connects and stays connected until ctx ends, which returns nil, or the
// engine refuses this worker for good, which returns a *RejectedError. Lost
// connections, absent engines and failed authentication are retried with
// Options.Backoff. At its end functions are taken back and running handlers
// get Options.DrainTimeout to answer. Only one Run at a time.
func (c *Client) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("bus client is running already")
	}
	defer c.running.Store(false)
	c.update(func() { c.rejected = nil })
	stop := c.startCallbacks()
	defer stop()
	// Handlers of lost connections may still run; their contexts have ended.
	defer c.awaitHandlers(c.options.timers.farewell)
	return c.stayConnected(ctx)
}

func (c *Client) stayConnected(ctx context.Context) error {
	failures := 0
	for {
		joined, err := c.connect(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The end of ctx is how Run is asked to end.
		}
		if fatal := c.fatal(err); fatal != nil {
			c.update(func() { c.rejected = fatal })
			return fatal
		}
		if joined {
			failures = 0
		}
		delay := c.options.Backoff.delay(failures, rand.Float64())
		c.log.Warn("No connection to the bus, will retry", "host", c.url.Host, "in", delay, "cause", err)
		failures++
		if !pause(ctx, delay) {
			return nil
		}
	}
}

// connect lives through one connection and reports whether the engine accepted
// this worker on it.
func (c *Client) connect(ctx context.Context) (joined bool, err error) {
	s, err := c.dialSession(ctx)
	if err != nil {
		return false, err
	}
	return s.live(ctx)
}

func (c *Client) fatal(err error) *RejectedError {
	var rejected *RejectedError
	if !errors.As(err, &rejected) {
		return nil
	}
	if c.options.RetryNameConflict && rejected.Code == protocol.CodeWorkerConflict {
		return nil
	}
	return rejected
}

// startCallbacks runs the queues of user code. The returned function lets them
// run empty, but does not wait for a callback that blocks.
func (c *Client) startCallbacks() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { c.events.run(ctx) })
	loops.Go(func() { c.bindings.run(ctx) })
	return func() {
		cancel()
		empty := make(chan struct{})
		go func() {
			loops.Wait()
			close(empty)
		}()
		select {
		case <-empty:
		case <-time.After(c.options.timers.farewell):
			c.log.Warn("A callback of the bus client does not return")
		}
	}
}

// awaitHandlers waits until no handler runs. Taking every slot also refuses
// calls that arrive meanwhile.
func (c *Client) awaitHandlers(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	all := int64(c.options.MaxConcurrentHandlers)
	if err := c.slots.Acquire(ctx, all); err != nil {
		c.log.Warn("Handlers are still running at the end", "waited", limit)
		return
	}
	c.slots.Release(all)
}
