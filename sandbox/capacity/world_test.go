package capacity_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/capacity"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// world is a daemon with few places, its broker, and idle sandboxes. It lives in
// a bubble of testing/synctest, whose time moves only while all wait.
type world struct {
	*capacity.Broker
	t        *testing.T
	provider *fake.Provider
	registry *prometheus.Registry

	mu   sync.Mutex
	idle []sandbox.ID
	// order has the names of creates that came through.
	order  []string
	last   sandbox.ID
	failed map[string]error
	group  sync.WaitGroup
}

func newWorld(t *testing.T, places int) *world {
	registry := prometheus.NewRegistry()
	w := &world{t: t, provider: fake.New(), registry: registry, failed: map[string]error{}}
	w.provider.Limit(places)
	w.Broker = capacity.New(w.provider, capacity.NewMetrics(registry))
	w.SetDisplacer(w)
	return w
}

// Displace stops the longest idle sandbox a moment later.
func (w *world) Displace() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.idle) == 0 {
		return false
	}
	id := w.idle[0]
	w.idle = w.idle[1:]
	w.group.Go(func() {
		<-time.After(10 * time.Millisecond)
		if err := w.Stop(context.Background(), id); err != nil {
			w.t.Error(err)
		}
	})
	return true
}

func (w *world) create(ctx context.Context, ticket capacity.Ticket, image string) (sandbox.ID, error) {
	return w.Create(capacity.WithTicket(ctx, ticket), sandbox.CreateRequest{
		Image: image, Marker: sandbox.Marker{Operator: "op", Object: "o", Nonce: "n"},
	})
}

// fill takes all places, with idle sandboxes or with busy ones.
func (w *world) fill(places int, idle bool) []sandbox.ID {
	w.t.Helper()
	var ids []sandbox.ID
	for range places {
		id, err := w.create(w.t.Context(), capacity.Ticket{}, "node")
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if idle {
		w.idle = slices.Clone(ids)
	}
	return ids
}

// queue begins a create and returns once it waits.
func (w *world) queue(name string, ticket capacity.Ticket, image string) {
	w.group.Go(func() {
		id, err := w.create(context.Background(), ticket, image)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			w.failed[name] = err
			return
		}
		w.order, w.last = append(w.order, name), id
	})
	synctest.Wait()
}

func patient(c capacity.Class) capacity.Ticket {
	return capacity.Ticket{Class: capacity.Always(c), Wait: 10 * time.Minute}
}

func (w *world) stop(id sandbox.ID) {
	w.t.Helper()
	if err := w.Stop(w.t.Context(), id); err != nil {
		w.t.Error(err)
	}
	synctest.Wait()
}

func (w *world) expectOrder(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.order); diff != "" {
		w.t.Errorf("order (-want +got):\n%s", diff)
	}
}

// bubble runs a test in a bubble and checks that nobody is left in the queue.
func bubble(t *testing.T, places int, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, places)
		test(w)
		w.group.Wait()
		if left := w.metric("sandbox_capacity_waiting"); left != 0 {
			t.Errorf("in the end %v creates wait", left)
		}
	})
}

// metric is the sum of a metric over all classes.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// newest is the sandbox that came through last.
func (w *world) newest() sandbox.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
