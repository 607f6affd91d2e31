package bus

import (
	"context"
	"errors"
	"math"
	"time"
)

// Backoff spaces attempts to connect: Initial, then twice as long each time up
// to Max, each moved by up to ±Jitter of itself. Zero fields mean 1 s, 30 s and
// 0.3 (contracts/iii-bus.md §4.3); a negative Jitter means none.
type Backoff struct {
	Initial, Max time.Duration
	// Jitter is a fraction, at most 1.
	Jitter float64
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial == 0 {
		b.Initial = time.Second
	}
	if b.Max == 0 {
		b.Max = max(30*time.Second, b.Initial)
	}
	switch {
	case b.Jitter == 0:
		b.Jitter = 0.3
	case b.Jitter < 0:
		b.Jitter = 0
	}
	return b
}

func (b Backoff) validate() error {
	if b.Initial < 0 || b.Max < b.Initial || b.Jitter > 1 {
		return errors.New("bus options: Backoff needs 0 ≤ Initial ≤ Max and Jitter ≤ 1")
	}
	return nil
}

// delay is the pause before the attempt after `failures` failures in a row,
// counted from 0; random is in [0, 1).
func (b Backoff) delay(failures int, random float64) time.Duration {
	// The exponent is bounded so that the power stays finite.
	grown := float64(b.Initial) * math.Pow(2, float64(min(failures, 62)))
	base := min(grown, float64(b.Max))
	return time.Duration(base * (1 + b.Jitter*(2*random-1)))
}

// pause waits and reports whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
