package sandboxfunction

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// patience bounds every wait of these tests; it passes only when something is wrong.
const patience = 20 * time.Second

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	gomega.NewWithT(t).Eventually(holds, patience, time.Millisecond).Should(gomega.BeTrue(), what)
}

func nobody(publish.Runtime) map[string]bool { return nil }

// mustEnter enters a gate that has a place.
func mustEnter(t *testing.T, g *gates, to visit) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	leave, err := g.enter(ctx, to)
	if err != nil {
		t.Fatalf("entering: %v", err)
	}
	return leave
}

// queueUp has a plant wait at a gate, which reports its function once it is in.
func queueUp(t *testing.T, g *gates, to visit, in chan<- string) {
	t.Helper()
	before := g.queue(to.id)
	go func() {
		if leave, err := g.enter(t.Context(), to); err == nil {
			in <- to.functionID
			leave()
		}
	}()
	eventually(t, "the plant to wait", func() bool { return g.queue(to.id) > before })
}

func (g *gates) queue(id sandbox.ID) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.gates[id]; known != nil {
		return len(known.waiting)
	}
	return 0
}

func (g *gates) open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.gates)
}

func TestGates(t *testing.T) {
	g, one, other := newGates(nobody), visit{id: sandbox.NewID("one")}, visit{id: sandbox.NewID("other")}
	var leave []func()
	for range plantsAtOnce {
		leave = append(leave, mustEnter(t, g, one))
	}
	leave = append(leave, mustEnter(t, g, other))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.enter(ended, one); !errors.Is(err, context.Canceled) {
		t.Errorf("one too many got %v", err)
	}
	in := make(chan string, 1)
	queueUp(t, g, one, in)
	leave[0]()
	select {
	case <-in:
	case <-time.After(patience):
		t.Fatal("nobody takes the place that was left")
	}
	for _, l := range leave[1:] {
		l()
	}
	eventually(t, "the gates to go", func() bool { return g.open() == 0 })
}

func TestGates_functionsThatCallsWaitForGoFirst(t *testing.T) {
	shop := publish.Runtime{Namespace: "apps", Name: "shop"}
	g := newGates(func(runtime publish.Runtime) map[string]bool {
		return map[string]bool{"shop::price": runtime == shop}
	})
	at := func(function string) visit {
		return visit{runtime: shop, id: sandbox.NewID("one"), functionID: function}
	}
	first, second := mustEnter(t, g, at("shop::a")), mustEnter(t, g, at("shop::b"))
	in := make(chan string, 4)
	for _, function := range []string{"shop::c", "shop::d", "shop::price", "shop::e"} {
		queueUp(t, g, at(function), in)
	}
	// One place is given on from each to the next; the other stays taken.
	first()
	var order []string
	for range cap(in) {
		select {
		case function := <-in:
			order = append(order, function)
		case <-time.After(patience):
			t.Fatalf("only %v got in", order)
		}
	}
	if diff := cmp.Diff([]string{"shop::price", "shop::c", "shop::d", "shop::e"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	second()
}
