package publish

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var cart = Runtime{Namespace: "apps", Name: "cart", UID: "uid-2"}

func TestTable_Loads(t *testing.T) {
	table, _, _ := newTestTable()
	if got := table.Loads(shop); len(got) != 0 {
		t.Errorf("an unknown runtime has loads %v", got)
	}
	table.SetInstance(shop, testInstance("0", 4))
	table.SetInstance(shop, testInstance("1", 4))
	table.Bind(Binding{FunctionID: "shop::price", Runtime: shop, SourceDigest: "d"})
	table.Bind(Binding{FunctionID: "cart::sum", Runtime: cart, SourceDigest: "e"})
	table.MarkPlanted(shop, testInstance("0", 4), "d")
	lease := mustAcquire(t, table, "d")
	table.Drain(shop, "1")
	want := map[string]Load{"0": {InUse: 1, Complete: true}, "1": {Draining: true}}
	if diff := cmp.Diff(want, table.Loads(shop)); diff != "" {
		t.Errorf("loads (-want +got):\n%s", diff)
	}
	lease.Release()
	table.Resume(shop, "1")
	table.MarkPlanted(shop, testInstance("1", 4), "d")
	want = map[string]Load{"0": {Complete: true}, "1": {Complete: true}}
	if diff := cmp.Diff(want, table.Loads(shop)); diff != "" {
		t.Errorf("later loads (-want +got):\n%s", diff)
	}
}

func TestTable_DrainIdlest(t *testing.T) {
	const unused = 5 * time.Second
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, table *Table, step func(time.Duration))
		among   []Runtime
		want    string
	}{
		"the one unused for longest": {func(_ *testing.T, table *Table, step func(time.Duration)) {
			table.SetInstance(cart, testInstance("0", 4))
			step(time.Second)
			table.SetInstance(shop, testInstance("0", 4))
			step(unused)
		}, []Runtime{shop, cart}, "cart/0"},
		"only of these runtimes": {func(_ *testing.T, table *Table, step func(time.Duration)) {
			table.SetInstance(cart, testInstance("0", 4))
			table.SetInstance(shop, testInstance("0", 4))
			step(unused)
		}, []Runtime{shop, {Name: "unknown"}}, "shop/0"},
		"none that was used just now": {func(t *testing.T, table *Table, step func(time.Duration)) {
			table.SetInstance(shop, testInstance("0", 4))
			step(unused)
			lease := mustAcquire(t, table, "")
			step(unused)
			lease.Release()
			step(unused - 1)
		}, []Runtime{shop}, ""},
		"the other one of a runtime that is in use": {func(t *testing.T, table *Table, step func(time.Duration)) {
			table.SetInstance(shop, testInstance("0", 4))
			table.SetInstance(shop, testInstance("1", 4))
			step(unused)
			mustAcquire(t, table, "")
			step(unused)
		}, []Runtime{shop}, "shop/1"},
		"none in use, however long": {func(t *testing.T, table *Table, step func(time.Duration)) {
			table.SetInstance(shop, testInstance("0", 4))
			mustAcquire(t, table, "")
			step(time.Hour)
		}, []Runtime{shop}, ""},
		"none that drains": {func(_ *testing.T, table *Table, step func(time.Duration)) {
			table.SetInstance(shop, testInstance("0", 4))
			table.Drain(shop, "0")
			step(unused)
		}, []Runtime{shop}, ""},
		"none of a runtime that calls wait for": {func(t *testing.T, table *Table, step func(time.Duration)) {
			table.SetInstance(shop, testInstance("0", 4))
			ctx, cancel := context.WithCancel(t.Context())
			answers := enqueue(ctx, t, table, "planted nowhere")
			t.Cleanup(func() { cancel(); receive(t, answers) })
			step(unused)
		}, []Runtime{shop}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			table, _, clk := newTestTable()
			tc.prepare(t, table, clk.Step)
			owner, instance, ok := table.DrainIdlest(tc.among, unused)
			got := ""
			if ok {
				got = owner.Name + "/" + instance.Name
				if !table.Loads(owner)[instance.Name].Draining {
					t.Error("it still takes calls")
				}
			}
			if got != tc.want {
				t.Errorf("drained %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTable_served follows what bindings, their changes and their ends leave of the
// sources of two runtimes.
func TestTable_served(t *testing.T) {
	table, _, _ := newTestTable()
	check := func(when string, want map[Runtime][]string) {
		t.Helper()
		for _, runtime := range []Runtime{shop, cart} {
			for _, digest := range []string{"d", "e"} {
				if got := table.IsServed(runtime, digest); got != slices.Contains(want[runtime], digest) {
					t.Errorf("%s %s of %s is served: %t", when, digest, runtime.Name, got)
				}
			}
		}
	}
	bind := func(id string, runtime Runtime, digest string) {
		table.Bind(Binding{FunctionID: id, Runtime: runtime, SourceDigest: digest})
	}
	check("at first", nil)
	bind("shop::a", shop, "d")
	bind("shop::b", shop, "d")
	bind("shop::b", shop, "d") // Again, as every reconciliation does.
	bind("cart::a", cart, "d")
	check("with three functions", map[Runtime][]string{shop: {"d"}, cart: {"d"}})
	bind("shop::b", shop, "e")
	check("with another source of one", map[Runtime][]string{shop: {"d", "e"}, cart: {"d"}})
	table.Unbind("shop::a")
	table.Unbind("shop::a")
	check("without the first", map[Runtime][]string{shop: {"e"}, cart: {"d"}})
	bind("shop::b", cart, "e")
	check("with one in another runtime", map[Runtime][]string{cart: {"d", "e"}})
	table.End("shop::b")
	table.End("cart::a")
	check("at the end", nil)
	if len(table.served)+len(table.bindings) != 0 {
		t.Errorf("left are the sources %v and the bindings %v", table.served, table.bindings)
	}
}
