package wake_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/wake"
)

func newQueue(t *testing.T) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	return queue
}

// drain takes all keys out of a queue.
func drain(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) []string {
	var names []string
	for queue.Len() > 0 {
		request, _ := queue.Get()
		queue.Done(request)
		names = append(names, request.String())
	}
	slices.Sort(names)
	return names
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "apps", Name: name}
}

func TestSource(t *testing.T) {
	source, queue := wake.NewSource(), newQueue(t)
	for _, name := range []string{"a", "b", "a"} {
		source.Wake(key(name))
	}
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apps/a", "apps/b"}, drain(queue)); diff != "" {
		t.Errorf("wake-ups before the start (-want +got):\n%s", diff)
	}
	for _, name := range []string{"c", "c"} {
		source.Wake(key(name))
	}
	if diff := cmp.Diff([]string{"apps/c"}, drain(queue)); diff != "" {
		t.Errorf("wake-ups after the start (-want +got):\n%s", diff)
	}
}

func TestSource_wakesFirst(t *testing.T) {
	source, queue := wake.NewSource(), priorityqueue.New[reconcile.Request]("test")
	t.Cleanup(queue.ShutDown)
	queue.Add(reconcile.Request{NamespacedName: key("reported")})
	source.Wake(key("early"))
	source.WakeFirst(key("early and awaited"))
	source.Wake(key("early and awaited"))
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	source.Wake(key("woken"))
	source.Wake(key("awaited"))
	source.WakeFirst(key("awaited"))
	var order []string
	for range 5 {
		request, _ := queue.Get()
		queue.Done(request)
		order = append(order, request.Name)
	}
	slices.Sort(order[:2])
	slices.Sort(order[2:4])
	if diff := cmp.Diff([]string{"awaited", "early and awaited", "early", "woken", "reported"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestSource_startRaces wakes from many sides while the controller starts: no key
// is lost between the two.
func TestSource_startRaces(t *testing.T) {
	source, queue := wake.NewSource(), newQueue(t)
	var all sync.WaitGroup
	var want []string
	for n := range 50 {
		name := string(rune('a'+n%26)) + string(rune('a'+n/26))
		want = append(want, "apps/"+name)
		all.Go(func() { source.Wake(key(name)) })
	}
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	slices.Sort(want)
	if diff := cmp.Diff(want, drain(queue)); diff != "" {
		t.Errorf("wake-ups (-want +got):\n%s", diff)
	}
}
