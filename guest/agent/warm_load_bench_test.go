package main

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// loadCallers are more than what processes can be made ready for.
const loadCallers = 16

// BenchmarkCall_load measures calls of an empty handler that come faster than
// processes get ready, and then those that come by chance at half of that rate, as
// hack/bench has it, without its bus and operator. b.N is the number of calls of each.
func BenchmarkCall_load(b *testing.B) {
	for language, source := range emptyHandlers {
		b.Run(string(language), func(b *testing.B) {
			g := newBenchGuest(b)
			digest := digestOf(source)
			g.timed(b, wire.CommandPlant, wire.PlantRequest{Language: language, Source: source, SourceDigest: digest, Warm: true})
			load := &benchLoad{b: b, guest: g, request: callRequest(language, digest, "0")}
			load.request.Warm = true
			begun := time.Now()
			load.together(b.N)
			rate := float64(b.N) / time.Since(begun).Seconds()
			load.report("full", rate)
			load.byChance(b.N, rate/2)
			load.report("half", rate/2)
		})
	}
}

type benchLoad struct {
	b       *testing.B
	guest   benchGuest
	request wire.CallRequest
	mutex   sync.Mutex
	took    []time.Duration
	cold    int
}

// call counts from when the call arrived.
func (l *benchLoad) call(arrived time.Time) {
	_, reply := l.guest.timed(l.b, wire.CommandCall, l.request)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.took = append(l.took, time.Since(arrived))
	if reply.Start == wire.StartCold {
		l.cold++
	}
}

// together has callers call, each again once it is answered.
func (l *benchLoad) together(calls int) {
	todo := make(chan struct{}, calls)
	for range calls {
		todo <- struct{}{}
	}
	close(todo)
	var group sync.WaitGroup
	for range loadCallers {
		group.Go(func() {
			for range todo {
				l.call(time.Now())
			}
		})
	}
	group.Wait()
}

func (l *benchLoad) byChance(calls int, rate float64) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The same arrivals each time.
	var group sync.WaitGroup
	at := time.Now()
	for range calls {
		<-time.After(time.Until(at)) // the arrivals are the load itself
		arrived := at
		group.Go(func() { l.call(arrived) })
		at = at.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
	}
	group.Wait()
}

// report tells of the calls since the last one.
func (l *benchLoad) report(name string, rate float64) {
	p50 := median(l.took)
	p99 := l.took[len(l.took)*99/100]
	l.b.ReportMetric(rate, name+"/s")
	l.b.ReportMetric(float64(p50.Microseconds())/1000, name+"-p50-ms")
	l.b.ReportMetric(float64(p99.Microseconds())/1000, name+"-p99-ms")
	l.b.ReportMetric(float64(p99)/float64(p50), name+"-p99/p50")
	l.b.ReportMetric(float64(l.cold)/float64(len(l.took)), name+"-cold-share")
	l.took, l.cold = nil, 0
}
