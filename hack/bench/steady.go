package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
)

// measureSteady lets calls of a PerCall function arrive by chance, as those of many
// callers do, at half of the rate that one instance has kept up in this run. A
// call's time counts from its arrival, so that one that holds up others is not told
// once only.
func (b *bench) measureSteady(ctx context.Context) error {
	worst := 0.0
	for _, l := range languages {
		cell := results.Saturated(l.name)
		rate := results.Summarize(b.set[cell][results.PerCall]).PerSecond / 2
		if rate <= 0 || math.IsNaN(rate) {
			b.note(fmt.Sprintf("No PerCall call of %s was answered within a window, so there is no half of its rate.", l.name))
			continue
		}
		latencies, err := b.arrivals(ctx, b.published(cell, results.PerCall), rate)
		if err != nil {
			return err
		}
		p50, p99 := results.Percentile(latencies, 0.5), results.Percentile(latencies, 0.99)
		if math.IsNaN(p50) {
			continue
		}
		prefix := "steady." + l.name
		b.metrics[prefix+".per_s"], b.metrics[prefix+".samples"] = rate, float64(len(latencies))
		b.metrics[prefix+".p50_ms"], b.metrics[prefix+".p99_ms"] = p50, p99
		b.metrics["call."+l.name+".p99_over_p50"] = p99 / p50
		worst = max(worst, p99/p50)
	}
	if worst > 0 {
		b.metrics["call.p99_over_p50"] = worst
	}
	return nil
}

// steadyLength is longer where calls are few.
func (b *bench) steadyLength(rate float64) time.Duration {
	const wanted, most = 150, 3
	return min(max(b.plan.steady, time.Duration(wanted/rate*float64(time.Second))), most*b.plan.steady)
}

// arrivals are calls at random distances. Those of the first quarter are not
// measured.
func (b *bench) arrivals(ctx context.Context, w way, rate float64) ([]time.Duration, error) {
	l := &load{bench: b, way: w, work: works[0]}
	began, length := time.Now(), b.steadyLength(rate)
	l.opens, l.closes = began.Add(length/4), began.Add(length+length/4)
	var group sync.WaitGroup
	defer group.Wait()
	for i, at := 0, began; at.Before(l.closes); i++ {
		if err := pause(ctx, time.Until(at)); err != nil {
			return nil, err
		}
		arrived := at
		group.Go(func() {
			err := l.once(ctx, i)
			l.add(arrived, time.Now(), err)
		})
		at = at.Add(time.Duration(b.random.ExpFloat64() / rate * float64(time.Second)))
	}
	group.Wait()
	return l.slot.Latencies, ctx.Err()
}
