package publish

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

func TestInstance_capacity(t *testing.T) {
	for name, tc := range map[string]struct{ slots, limit, want int }{
		"one slot is kept for upkeep":                      {slots: 4, want: 3},
		"the runtime may ask for less":                     {slots: 4, limit: 2, want: 2},
		"the runtime cannot have more than there is":       {slots: 4, limit: 9, want: 3},
		"a sandbox with one slot takes calls all the same": {slots: 1, want: 1},
		"so does one whose slots are unknown":              {slots: 0, want: 1},
		"two slots leave one":                              {slots: 2, limit: 5, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			i := instanceState{Instance: Instance{Slots: tc.slots}}
			if got := i.capacity(tc.limit); got != tc.want {
				t.Errorf("capacity is %d, want %d", got, tc.want)
			}
		})
	}
}

func TestTable_routesToTheLeastLoaded(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(table *Table)
		// lacks is the instance in which the source is not planted.
		lacks string
		want  string
	}{
		"an empty instance before a busy one": {func(table *Table) {
			table.SetInstance(shop, testInstance("0", 4))
			table.SetInstance(shop, testInstance("1", 4))
		}, "", "[0 1 0 1 0 1]"},
		"no more than the concurrency": {func(table *Table) {
			table.SetInstance(shop, testInstance("0", 4))
			table.SetInstance(shop, testInstance("1", 4))
			table.SetConcurrency(shop, 1)
		}, "", "[0 1]"},
		"only where the source is": {func(table *Table) {
			table.SetInstance(shop, testInstance("0", 4))
			table.SetInstance(shop, testInstance("1", 3))
		}, "0", "[1 1]"},
		"not to one that drains": {func(table *Table) {
			table.SetInstance(shop, testInstance("0", 4))
			table.SetInstance(shop, testInstance("1", 2))
			table.Drain(shop, "0")
		}, "", "[1]"},
		"to one that drains no longer": {func(table *Table) {
			table.SetInstance(shop, testInstance("0", 2))
			table.Drain(shop, "0")
			table.Resume(shop, "0")
		}, "", "[0]"},
		"not to one that was removed": {func(table *Table) {
			table.SetInstance(shop, testInstance("0", 4))
			table.SetInstance(shop, testInstance("1", 2))
			table.RemoveInstance(shop, "0")
		}, "", "[1]"},
		"as many as the list says by now": {func(table *Table) {
			table.SetInstance(shop, testInstance("0", 2))
			table.SetInstance(shop, testInstance("0", 3))
		}, "", "[0 0]"},
	} {
		t.Run(name, func(t *testing.T) {
			table, _, _ := newTestTable()
			tc.prepare(table)
			for _, n := range []string{"0", "1"} {
				if n != tc.lacks {
					table.MarkPlanted(shop, testInstance(n, 0), "d")
				}
			}
			var got []string
			for table.hasFree("d") {
				got = append(got, mustAcquire(t, table, "d").Name)
			}
			if fmt.Sprint(got) != tc.want {
				t.Errorf("calls went to %v, want %s", got, tc.want)
			}
		})
	}
}

func (t *Table) hasFree(digest string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runtime(shop).pick(digest) != nil
}

func TestTable_planted(t *testing.T) {
	table, hooks, _ := newTestTable()
	zero, one := testInstance("0", 4), testInstance("1", 4)
	table.SetInstance(shop, zero)
	table.SetInstance(shop, one)
	table.MarkPlanted(shop, zero, "a")
	if got := names(table.Unplanted(shop, "a")); got != "[1]" {
		t.Errorf("a lacks in %s, want [1]", got)
	}
	replaced := Instance{Name: "0", ID: sandbox.NewID("another"), Slots: 4}
	table.SetInstance(shop, replaced)
	if got := names(table.Unplanted(shop, "a")); got != "[0 1]" {
		t.Errorf("after the replacement a lacks in %s, want [0 1]", got)
	}
	table.MarkPlanted(shop, zero, "a")
	if got := names(table.Unplanted(shop, "a")); got != "[0 1]" {
		t.Errorf("what was planted in the former sandbox counts: a lacks in %s", got)
	}
	table.MarkPlanted(shop, replaced, "a")
	table.MarkUnplanted(shop, zero, "a")
	if got := names(table.Unplanted(shop, "a")); got != "[1]" {
		t.Errorf("what went from the former sandbox counts: a lacks in %s", got)
	}
	table.MarkUnplanted(shop, replaced, "a")
	if got := names(table.Unplanted(shop, "a")); got != "[0 1]" {
		t.Errorf("a lacks in %s, want [0 1]", got)
	}
	if _, added, _ := hooks.counts(); added != 3 {
		t.Errorf("new instances were told %d times, want 3", added)
	}
	table.Drain(shop, "0")
	if got := names(table.Instances(shop)); got != "[1]" {
		t.Errorf("instances that take calls are %s, want [1]", got)
	}
}

func TestTable_drain(t *testing.T) {
	table, _, _ := newTestTable()
	table.SetInstance(shop, testInstance("0", 4))
	lease := mustAcquire(t, table, "")
	if table.Drain(shop, "0") {
		t.Error("an instance in use is called empty")
	}
	lease.Release()
	if !table.Drain(shop, "0") || !table.Drain(shop, "unknown") || !table.Drain(Runtime{Name: "unknown"}, "0") {
		t.Error("an empty instance, or none, is not called empty")
	}
	if _, known := table.runtimes[Runtime{Name: "unknown"}]; known {
		t.Error("asking for a runtime made one")
	}
}

func TestTable_bindings(t *testing.T) {
	table, _, _ := newTestTable()
	old := Binding{FunctionID: "shop::price", Runtime: shop, SourceDigest: "a"}
	table.Bind(old)
	held, _ := table.Binding("shop::price")
	table.Bind(Binding{FunctionID: "shop::price", Runtime: shop, SourceDigest: "b"})
	if diff := cmp.Diff(old, held); diff != "" {
		t.Errorf("a call in flight lost its binding (-want +got):\n%s", diff)
	}
	if table.IsServed(shop, "a") || !table.IsServed(shop, "b") || table.IsServed(Runtime{}, "b") {
		t.Error("the wrong sources are served")
	}
	table.Unbind("shop::price")
	if _, known := table.Binding("shop::price"); known || table.IsServed(shop, "b") {
		t.Error("the binding is still there")
	}
}

func TestTable_activity(t *testing.T) {
	table, hooks, clk := newTestTable()
	check := func(when string, want Activity) {
		t.Helper()
		if diff := cmp.Diff(want, table.Activity(shop)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("first heard of", Activity{LastUse: start})
	clk.Step(time.Minute)
	check("a look is no use", Activity{LastUse: start})
	table.Want(shop)
	check("wanted", Activity{LastUse: start.Add(time.Minute), Wanted: true})
	clk.Step(time.Minute)
	table.SetInstance(shop, testInstance("0", 4))
	check("with an instance", Activity{LastUse: start.Add(time.Minute)})
	lease := mustAcquire(t, table, "")
	check("a call began", Activity{LastUse: start.Add(2 * time.Minute), InFlight: 1})
	clk.Step(time.Minute)
	lease.Release()
	lease.Release()
	check("it ended, once", Activity{LastUse: start.Add(3 * time.Minute)})
	clk.Step(time.Minute)
	table.Use(shop)
	check("used", Activity{LastUse: start.Add(4 * time.Minute)})
	if woken, _, _ := hooks.counts(); woken != 1 {
		t.Errorf("the runtime was woken %d times, want once, by Want", woken)
	}
}

func TestTable_droppedRuntimesStayDropped(t *testing.T) {
	table, _, clk := newTestTable()
	table.Drop(shop)
	table.Use(shop)
	table.SetConcurrency(shop, 1)
	if _, err := table.Acquire(t.Context(), shop, ""); !errors.Is(err, ErrRuntimeGone) {
		t.Errorf("a late run got %v, want ErrRuntimeGone", err)
	}
	if got := len(table.runtimes); got != 0 {
		t.Errorf("%d runtimes are kept after their end", got)
	}
	clk.Step(remembrance + time.Second)
	table.Drop(Runtime{UID: "another"})
	if got := len(table.gone); got != 1 {
		t.Errorf("%d dropped runtimes are remembered, want the last", got)
	}
}

func TestTable_waitingCallsFollowTheirFunction(t *testing.T) {
	for name, tc := range map[string]struct {
		runtime Runtime
		digest  string
	}{
		"to another source":  {shop, "new"},
		"to another runtime": {Runtime{UID: "another"}, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			table, _, _ := newTestTable()
			table.Bind(Binding{FunctionID: "f", Runtime: shop, SourceDigest: "old"})
			type grant struct {
				binding Binding
				err     error
			}
			granted := make(chan grant, 1)
			go func() {
				_, b, err := table.AcquireFor(t.Context(), "f", nil)
				granted <- grant{b, err}
			}()
			eventually(t, "the call to wait", func() bool { return waiting(table) == 1 })
			run := enqueue(t.Context(), t, table, "")
			// Off the bus for a moment, as when the daemon was away.
			table.Unbind("f")
			table.Bind(Binding{FunctionID: "f", Runtime: tc.runtime, SourceDigest: tc.digest})
			stillWaits(t, run)
			instance := testInstance("0", 4)
			table.SetInstance(tc.runtime, instance)
			table.MarkPlanted(tc.runtime, instance, tc.digest)
			select {
			case got := <-granted:
				if got.err != nil || got.binding.SourceDigest != tc.digest || got.binding.Runtime != tc.runtime {
					t.Errorf("the call got %+v, %v", got.binding, got.err)
				}
			case <-time.After(patience):
				t.Error("the call still waits for what nobody plants any more")
			}
		})
	}
}
