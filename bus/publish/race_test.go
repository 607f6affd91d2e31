package publish

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// TestTable_underLoad lets many calls come, give up and end while instances come,
// go, are replaced and are resized: no sandbox is ever over its capacity, no call
// is forgotten, and in the end nothing is counted as taken.
func TestTable_underLoad(t *testing.T) {
	const callers, calls, names, slots, limit = 24, 150, 4, 5, 3
	table := NewTable(clock.RealClock{}, Hooks{})
	table.SetConcurrency(shop, limit)
	var load sync.Map // sandbox.ID → *atomic.Int32
	stop := make(chan struct{})
	var churn, all sync.WaitGroup
	churn.Go(func() { disturb(table, names, slots, stop) })

	var granted, gaveUp atomic.Int32
	for range callers {
		all.Go(func() {
			for n := range calls {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if n%5 == 0 {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), 200*time.Microsecond)
				}
				if use(ctx, t, table, &load, limit) {
					granted.Add(1)
				} else if gaveUp.Add(1); n%5 != 0 {
					t.Error("a patient call was forgotten")
				}
				cancel()
			}
		})
	}
	all.Wait()
	close(stop)
	churn.Wait()

	if got := table.Activity(shop); got.InFlight != 0 || got.Wanted {
		t.Errorf("in the end the activity is %+v", got)
	}
	for _, i := range table.runtimes[shop].instances {
		if i.inUse != 0 {
			t.Errorf("instance %s counts %d calls in the end", i.Name, i.inUse)
		}
	}
	if granted.Load() < callers*calls/2 {
		t.Errorf("only %d of %d calls had a slot; %d gave up", granted.Load(), callers*calls, gaveUp.Load())
	}
}

// use makes one call and reports whether it had a slot.
func use(ctx context.Context, t *testing.T, table *Table, load *sync.Map, limit int32) bool {
	lease, err := table.Acquire(ctx, shop, "")
	if err != nil {
		return false
	}
	counter, _ := load.LoadOrStore(lease.ID, &atomic.Int32{})
	inUse := counter.(*atomic.Int32)
	if now := inUse.Add(1); now > limit {
		t.Errorf("%d programs in one sandbox, %d allowed", now, limit)
	}
	runtime.Gosched()
	inUse.Add(-1)
	if rand.IntN(40) == 0 {
		lease.Lost()
	}
	lease.Release()
	return true
}

// disturb changes the instances until told to stop, and leaves them all there.
func disturb(table *Table, names, slots int, stop <-chan struct{}) {
	for n := 0; ; n++ {
		name := strconv.Itoa(n % names)
		select {
		case <-stop:
			return
		default:
		}
		switch rand.IntN(6) {
		case 0:
			table.RemoveInstance(shop, name)
		case 1:
			table.Drain(shop, name)
		case 2:
			table.Resume(shop, name)
		default:
			table.SetInstance(shop, Instance{
				Name: name, ID: sandbox.NewID(strconv.Itoa(n)), Slots: slots,
			})
		}
	}
}
