package main

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load is what a number of calls took.
type load struct {
	latencies []time.Duration
	took      time.Duration
}

func (l *load) add(more load) {
	l.latencies = append(l.latencies, more.latencies...)
	l.took += more.took
}

func (l load) perSecond() float64 { return float64(len(l.latencies)) / l.took.Seconds() }

// percentile is the nearest rank.
func (l load) percentile(p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(l.latencies))
	return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)]
}

// drive makes calls, so many of them in flight at any time, until one fails.
func drive(ctx context.Context, inFlight, calls int, call func(context.Context) error) (load, error) {
	l := load{latencies: make([]time.Duration, calls)}
	var next atomic.Int64
	var failed error
	var once sync.Once
	var group sync.WaitGroup
	began := time.Now()
	for range inFlight {
		group.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= calls {
					return
				}
				sent := time.Now()
				if err := call(ctx); err != nil {
					once.Do(func() { failed = err })
					next.Store(int64(calls))
					return
				}
				l.latencies[n] = time.Since(sent)
			}
		})
	}
	group.Wait()
	l.took = time.Since(began)
	return l, failed
}
