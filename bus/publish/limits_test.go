package publish

import (
	"errors"
	"testing"
)

// limitedTable has the functions f, of these limits, and g in one sandbox of shop
// with room for seven programs and one in reserve.
func limitedTable(t *testing.T, limits Limits) *Table {
	t.Helper()
	table, _, _ := newTestTable()
	instance := testInstance("0", 8)
	table.SetInstance(shop, instance)
	for _, b := range []Binding{{FunctionID: "f", Limits: limits}, {FunctionID: "g"}} {
		b.Runtime, b.SourceDigest = shop, b.FunctionID
		table.Bind(b)
		table.MarkPlanted(shop, instance, b.FunctionID)
	}
	return table
}

func TestLimits_concurrency(t *testing.T) {
	table := limitedTable(t, Limits{Concurrency: 2})
	first := mustEnter(t, table, "f", nil, "w:f:1")
	second := mustEnter(t, table, "f", nil, "w:f:2")
	third := enqueueFor(t.Context(), t, table, "f", nil)
	stillWaits(t, third)
	// What the function may not use is there for others.
	var others []*Lease
	for range 5 {
		others = append(others, mustEnter(t, table, "g", nil, ""))
	}
	stillWaits(t, third)
	first.Release()
	got := receive(t, third)
	if got.err != nil {
		t.Fatal(got.err)
	}
	got.lease.Release()
	second.Release()
	if left := len(table.runtimes[shop].running); left != 1 {
		t.Errorf("%d functions count as running, want g alone", left)
	}
	for _, lease := range others {
		lease.Release()
	}
}

func TestLimits_queue(t *testing.T) {
	table := limitedTable(t, Limits{Concurrency: 1, Queue: 1})
	slot := mustEnter(t, table, "f", nil, "w:f:1")
	waits := enqueueFor(t.Context(), t, table, "f", nil)
	if _, _, err := table.AcquireFor(t.Context(), "f", nil); !errors.Is(err, ErrFunctionQueueFull) {
		t.Errorf("one call too many got %v", err)
	}
	if code := asCallError(ErrFunctionQueueFull).Code; code != CodeCapacity {
		t.Errorf("callers see %s", code)
	}
	mustEnter(t, table, "g", nil, "").Release()
	slot.Release()
	receive(t, waits).lease.Release()
}

func TestLimits_areFollowedByThoseWhoWait(t *testing.T) {
	table := limitedTable(t, Limits{Concurrency: 1})
	slot := mustEnter(t, table, "f", nil, "w:f:1")
	waits := enqueueFor(t.Context(), t, table, "f", nil)
	stillWaits(t, waits)
	table.Bind(Binding{FunctionID: "f", Runtime: shop, SourceDigest: "f", Limits: Limits{Concurrency: 2}})
	receive(t, waits).lease.Release()
	slot.Release()
}

func TestLimits_nestedCallsNeverWaitForTheirAncestors(t *testing.T) {
	table := limitedTable(t, Limits{Concurrency: 1})
	outer := mustEnter(t, table, "f", nil, "w:f:1")
	for name, caller := range map[string]Caller{
		"itself": by("w:f:1"),
		"by way of another": func() Caller {
			mustEnter(t, table, "g", by("w:f:1"), "w:g:2")
			return by("w:g:2")
		}(),
	} {
		if _, _, err := table.AcquireFor(t.Context(), "f", caller); !errors.Is(err, ErrNestedFull) {
			t.Errorf("%s: %v, want ErrNestedFull at once", name, err)
		}
	}
	// A handler that no limit holds may wait for one.
	mustEnter(t, table, "g", nil, "w:g:3")
	waits := enqueueFor(t.Context(), t, table, "f", by("w:g:3"))
	stillWaits(t, waits)
	outer.Release()
	receive(t, waits).lease.Release()
}
