package publish

import (
	"errors"
	"fmt"
	"testing"
)

// twoFunctions has the functions a and b in one sandbox of shop with one slot,
// which is taken.
func twoFunctions(t *testing.T) (table *Table, taken *Lease) {
	t.Helper()
	table, _, _ = newTestTable()
	instance := testInstance("0", 2)
	table.SetInstance(shop, instance)
	for _, id := range []string{"a", "b"} {
		table.Bind(Binding{FunctionID: id, Runtime: shop, SourceDigest: id})
		table.MarkPlanted(shop, instance, id)
	}
	return table, mustAcquire(t, table, "")
}

func TestDispatch_functionsTakeTurns(t *testing.T) {
	table, slot := twoFunctions(t)
	order := make(chan string, 8)
	for _, id := range []string{"a", "a", "a", "b", "b"} {
		answers := enqueueFor(t.Context(), t, table, id, nil)
		go func() {
			if got := <-answers; got.err == nil {
				order <- id
				got.lease.Release()
			}
		}()
	}
	slot.Release()
	got := ""
	for range 5 {
		got += <-order
	}
	if got != "ababa" {
		t.Errorf("the order was %s, want ababa", got)
	}
	if len(table.turns(shop)) > 0 {
		t.Error("turns are remembered although nobody waits")
	}
}

func (t *Table) turns(runtime Runtime) map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runtimes[runtime].turns
}

func TestQueue_oneFunctionCannotFillIt(t *testing.T) {
	table, slot := twoFunctions(t)
	answers := map[string][]<-chan answer{}
	for range maxWaiting {
		answers["a"] = append(answers["a"], enqueueFor(t.Context(), t, table, "a", nil))
	}
	if _, _, err := table.AcquireFor(t.Context(), "a", nil); !errors.Is(err, ErrQueueFull) {
		t.Errorf("one call too many of the same function: %v", err)
	}
	ends := make(chan answer, 1)
	go func() {
		lease, _, err := table.AcquireFor(t.Context(), "b", nil)
		ends <- answer{lease, err}
	}()
	newest := answers["a"][maxWaiting-1]
	if got := receive(t, newest); !errors.Is(got.err, ErrQueueFull) {
		t.Errorf("the newest call of the other function got %v", got.err)
	}
	if got := waiting(table); got != maxWaiting {
		t.Errorf("%d calls wait, want %d", got, maxWaiting)
	}
	slot.Release()
	first := receive(t, answers["a"][0])
	first.lease.Release()
	receive(t, ends).lease.Release()
}

func TestTable_End(t *testing.T) {
	table, slot := twoFunctions(t)
	gone := enqueueFor(t.Context(), t, table, "a", nil)
	stays := enqueueFor(t.Context(), t, table, "b", nil)
	table.End("a")
	if got := receive(t, gone); !errors.Is(got.err, ErrRuntimeGone) {
		t.Errorf("a waiting call of a function that ended got %v", got.err)
	}
	if _, _, err := table.AcquireFor(t.Context(), "a", nil); !errors.Is(err, ErrRuntimeGone) {
		t.Errorf("a new call of it got %v", err)
	}
	stillWaits(t, stays)
	slot.Release()
	receive(t, stays).lease.Release()
}

func TestTable_Close(t *testing.T) {
	table, slot := twoFunctions(t)
	waits := enqueueFor(t.Context(), t, table, "a", nil)
	table.Close(shop)
	if got := receive(t, waits); !errors.Is(got.err, ErrRuntimeGone) {
		t.Errorf("a waiting call got %v", got.err)
	}
	slot.Release()
	for name, acquire := range map[string]func() error{
		"call": func() error { _, _, err := table.AcquireFor(t.Context(), "a", nil); return err },
		"run":  func() error { _, err := table.Acquire(t.Context(), shop, ""); return err },
	} {
		if err := acquire(); !errors.Is(err, ErrRuntimeGone) {
			t.Errorf("a late %s got %v", name, err)
		}
	}
	if got := names(table.Instances(shop)); got != "[0]" {
		t.Errorf("the instances are %s; programs may still be in them", got)
	}
}

func TestMakeRoom_isFair(t *testing.T) {
	for name, tc := range map[string]struct {
		waiting    string
		functionID string
		want       string
	}{
		"nobody displaces an equal":         {"aabb", "a", "aabb"},
		"one more is no reason":             {"aab", "b", "aab"},
		"the newest of the greediest goes":  {"aabaaab", "b", "aabaab"},
		"a newcomer gets a place":           {"aab", "c", "ab"},
		"a newcomer among many small ones":  {"abd", "c", "abd"},
		"the greediest displaces nobody":    {"aaab", "a", "aaab"},
		"an order of arrival is left alone": {"abaca", "c", "abac"},
	} {
		t.Run(name, func(t *testing.T) {
			state := &runtimeState{}
			for _, id := range tc.waiting {
				state.waiting = append(state.waiting, &waiter{demand: demand{functionID: string(id)}, ready: make(chan waitResult, 1)})
			}
			state.makeRoom(tc.functionID)
			got := ""
			for _, w := range state.waiting {
				got += w.functionID
			}
			if got != tc.want {
				t.Errorf("%s wait, want %s", fmt.Sprintf("%q", got), tc.want)
			}
		})
	}
}
