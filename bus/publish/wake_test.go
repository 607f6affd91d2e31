package publish

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAcquire_wakes(t *testing.T) {
	for name, tc := range map[string]struct {
		// before brings the table into the state that the call finds, and says how often
		// that woke the runtime.
		before func(t *testing.T, table *Table, pass func()) int
		want   int
	}{
		"a runtime without an instance": {
			func(*testing.T, *Table, func()) int { return 0 }, 1,
		},
		"one whose last instance is on its way out": {
			func(_ *testing.T, table *Table, _ func()) int {
				table.SetInstance(shop, testInstance("0", 2))
				table.Drain(shop, "0")
				return 0
			}, 1,
		},
		"not for its turn": {
			func(t *testing.T, table *Table, _ func()) int {
				table.SetInstance(shop, testInstance("0", 2))
				table.MarkPlanted(shop, testInstance("0", 2), "a")
				mustAcquire(t, table, "a")
				return 0
			}, 0,
		},
		"not for a source that is being planted": {
			func(_ *testing.T, table *Table, _ func()) int {
				table.SetInstance(shop, testInstance("0", 2))
				return 0
			}, 0,
		},
		"not if another call has just done so": {
			func(t *testing.T, table *Table, _ func()) int {
				enqueue(t.Context(), t, table, "a")
				return 1
			}, 0,
		},
		"again after a while": {
			func(t *testing.T, table *Table, pass func()) int {
				enqueue(t.Context(), t, table, "a")
				pass()
				return 1
			}, 1,
		},
		// Whoever looked at the runtime then may have found nobody who waits.
		"again if the other call has given up": {
			func(t *testing.T, table *Table, _ func()) int {
				giveUp(t, table)
				return 1
			}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, hooks, clk := newTestTable()
			before := tc.before(t, table, func() { clk.Step(wakeAgain) })
			eventually(t, "what came before to wake", func() bool { woken, _, _ := hooks.counts(); return woken == before })
			giveUp(t, table)
			if woken, _, _ := hooks.counts(); woken-before != tc.want {
				t.Errorf("woken %d times, want %d", woken-before, tc.want)
			}
		})
	}
}

// giveUp makes a call that waits for nothing but the end of its wake.
func giveUp(t *testing.T, table *Table) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := table.Acquire(ended, shop, "a"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a call that had to wait: %v", err)
	}
}

func TestTable_Awaited(t *testing.T) {
	table, _, _ := newTestTable()
	if got := table.Awaited(shop); got != nil {
		t.Errorf("of a runtime that nobody knows: %v", got)
	}
	table.Bind(Binding{FunctionID: "shop::price", Runtime: shop, SourceDigest: "a"})
	enqueue(t.Context(), t, table, "b") // a run
	if got := table.Awaited(shop); got != nil {
		t.Errorf("while only a run waits: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := table.AcquireFor(ctx, "shop::price", nil)
		ended <- err
	}()
	want := map[string]bool{"shop::price": true}
	eventually(t, "the call to wait", func() bool { return cmp.Diff(want, table.Awaited(shop)) == "" })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := table.Awaited(shop); got != nil {
		t.Errorf("after the call gave up: %v", got)
	}
}
