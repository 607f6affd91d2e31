package publish

import (
	"context"
	"errors"
	"testing"
)

func TestAcquire_waitsInOrder(t *testing.T) {
	table, hooks, _ := newTestTable()
	first := enqueue(t.Context(), t, table, "")
	second := enqueue(t.Context(), t, table, "")
	if woken, _, _ := hooks.counts(); woken != 1 || !table.Activity(shop).Wanted {
		t.Errorf("the runtime was woken %d times, want once; activity %+v", woken, table.Activity(shop))
	}
	table.SetInstance(shop, testInstance("0", 2))
	got := receive(t, first)
	if got.err != nil {
		t.Fatal(got.err)
	}
	stillWaits(t, second)
	got.lease.Release()
	if got = receive(t, second); got.err != nil {
		t.Fatal(got.err)
	}
	got.lease.Release()
	if activity := table.Activity(shop); activity.InFlight != 0 || activity.Wanted {
		t.Errorf("afterwards the activity is %+v", activity)
	}
}

func TestAcquire_unsuitedCallsHoldUpNobody(t *testing.T) {
	table, _, _ := newTestTable()
	table.SetInstance(shop, testInstance("0", 2))
	table.MarkPlanted(shop, testInstance("0", 2), "b")
	a := enqueue(t.Context(), t, table, "a")
	lease := mustAcquire(t, table, "b")
	b := enqueue(t.Context(), t, table, "b")
	lease.Release()
	stillWaits(t, a)
	lease = receive(t, b).lease
	table.MarkPlanted(shop, testInstance("0", 2), "a")
	stillWaits(t, a)
	lease.Release()
	receive(t, a).lease.Release()
}

func TestAcquire_changesThatFreeSlots(t *testing.T) {
	for name, free := range map[string]func(table *Table){
		"another instance":   func(table *Table) { table.SetInstance(shop, testInstance("1", 2)) },
		"more slots":         func(table *Table) { table.SetInstance(shop, testInstance("0", 8)) },
		"more concurrency":   func(table *Table) { table.SetConcurrency(shop, 2) },
		"a drain taken back": func(table *Table) { table.Resume(shop, "drained") },
	} {
		t.Run(name, func(t *testing.T) {
			table, _, _ := newTestTable()
			table.SetInstance(shop, testInstance("drained", 2))
			table.Drain(shop, "drained")
			slots := 3
			if name == "more slots" {
				slots = 2
			} else {
				table.SetConcurrency(shop, 1)
			}
			table.SetInstance(shop, testInstance("0", slots))
			lease := mustAcquire(t, table, "")
			defer lease.Release()
			waits := enqueue(t.Context(), t, table, "")
			free(table)
			receive(t, waits).lease.Release()
		})
	}
}

func TestAcquire_fullQueue(t *testing.T) {
	table, _, _ := newTestTable()
	ctx, cancel := context.WithCancel(t.Context())
	var calls []<-chan answer
	for range maxWaiting {
		calls = append(calls, enqueue(ctx, t, table, "missing"))
	}
	if _, err := table.Acquire(t.Context(), shop, "missing"); !errors.Is(err, ErrQueueFull) {
		t.Errorf("one call too many: %v, want ErrQueueFull", err)
	}
	// Calls for a source that is nowhere must not shut out those that have a slot.
	table.SetInstance(shop, testInstance("0", 2))
	mustAcquire(t, table, "").Release()
	cancel()
	for _, call := range calls {
		if got := receive(t, call); !errors.Is(got.err, context.Canceled) {
			t.Errorf("a call that gave up: %v", got.err)
		}
	}
	if left := waiting(table); left != 0 {
		t.Errorf("%d calls still wait", left)
	}
}

// TestAcquire_slotGrantedToALeaver grants a slot to a call whose context has
// ended already, as happens when both come in the same moment.
func TestAcquire_slotGrantedToALeaver(t *testing.T) {
	table, _, _ := newTestTable()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		table.mu.Lock()
		state := table.runtime(shop)
		w := &waiter{ready: make(chan waitResult, 1)}
		state.waiting = append(state.waiting, w)
		table.mu.Unlock()
		table.SetInstance(shop, testInstance("0", 2))
		lease, err := table.await(ended, state, w)
		switch {
		case err == nil:
			lease.Release()
		case lease != nil || !errors.Is(err, context.Canceled):
			t.Fatalf("a leaver got %v, %v", lease, err)
		}
		if got := table.Activity(shop).InFlight; got != 0 {
			t.Fatalf("%d slots are still taken", got)
		}
		mustAcquire(t, table, "").Release()
		table.RemoveInstance(shop, "0")
	}
}

func TestTable_runtimesThatEnd(t *testing.T) {
	for name, end := range map[string]func(*Table){
		"dropped": func(table *Table) { table.Drop(shop) },
		"refused": func(table *Table) { table.Refuse(shop, ErrRuntimeGone) },
	} {
		t.Run(name, func(t *testing.T) {
			table, _, _ := newTestTable()
			table.SetInstance(shop, testInstance("0", 2))
			lease := mustAcquire(t, table, "")
			waits := enqueue(t.Context(), t, table, "")
			end(table)
			if got := receive(t, waits); !errors.Is(got.err, ErrRuntimeGone) {
				t.Errorf("a waiting call got %v, want ErrRuntimeGone", got.err)
			}
			if table.Activity(shop).Wanted {
				t.Error("the runtime is still wanted")
			}
			lease.Release()
			if got := table.Activity(shop).InFlight; got != 0 {
				t.Errorf("%d calls in flight, want 0: the release counted for another runtime", got)
			}
		})
	}
}

func TestLease_lost(t *testing.T) {
	table, hooks, _ := newTestTable()
	gone := testInstance("0", 4)
	table.SetInstance(shop, gone)
	one, other := mustAcquire(t, table, ""), mustAcquire(t, table, "")
	one.Lost()
	one.Release()
	if got := table.Instances(shop); len(got) != 0 {
		t.Errorf("the lost instance is still there: %v", got)
	}
	// The same sandbox is listed once more before its loss is seen.
	table.SetInstance(shop, gone)
	other.Lost()
	other.Release()
	if got := names(table.Instances(shop)); got != "[0]" {
		t.Errorf("a former lease removed the new entry: %s", got)
	}
	for range 3 {
		mustAcquire(t, table, "")
	}
	if table.hasFree("") {
		t.Error("a release of a former lease freed a slot of the new entry")
	}
	if _, _, lost := hooks.counts(); lost != 2 {
		t.Errorf("told of %d losses, want 2", lost)
	}
}

func TestLease_notPlanted(t *testing.T) {
	table, hooks, _ := newTestTable()
	instance := testInstance("0", 4)
	table.SetInstance(shop, instance)
	table.MarkPlanted(shop, instance, "a")
	lease := mustAcquire(t, table, "a")
	lease.NotPlanted("a")
	lease.Release()
	if got := names(table.Unplanted(shop, "a")); got != "[0]" {
		t.Errorf("a lacks in %s, want [0]", got)
	}
	if _, added, _ := hooks.counts(); added != 2 {
		t.Errorf("those who plant were told %d times, want twice", added)
	}
	waits := enqueue(t.Context(), t, table, "a")
	table.MarkPlanted(shop, instance, "a")
	receive(t, waits).lease.Release()
}

func TestAcquire_doesNotWakeForATurn(t *testing.T) {
	table, hooks, _ := newTestTable()
	table.SetInstance(shop, testInstance("0", 2))
	slot := mustAcquire(t, table, "")
	waits := enqueue(t.Context(), t, table, "")
	if woken, _, _ := hooks.counts(); woken != 0 {
		t.Errorf("the runtime was woken %d times for a call that waits for its turn", woken)
	}
	slot.Release()
	receive(t, waits).lease.Release()
}
