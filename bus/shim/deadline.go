package shim

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// withTimeout is context.WithTimeoutCause on a clock that tests can move.
func withTimeout(ctx context.Context, c clock.Clock, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := c.NewTimer(limit)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-stopped
	}
}
