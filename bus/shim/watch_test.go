package shim

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// plainLists says that the fake API server has no streaming lists.
type plainLists struct{}

func (plainLists) IsWatchListSemanticsUnSupported() bool { return true }

// realInformers watch the world's API.
type realInformers struct {
	w    *world
	stop <-chan struct{}
}

func (i realInformers) GetInformer(_ context.Context, obj client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	empty := func() client.ObjectList {
		if _, ok := obj.(*v1alpha1.SandboxFunction); ok {
			return &v1alpha1.SandboxFunctionList{}
		}
		return &v1alpha1.SandboxRuntimeList{}
	}
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list := empty()
			return list, i.w.behind.List(ctx, list)
		},
		WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			return i.w.behind.Watch(ctx, empty())
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(listWatch, plainLists{}), obj, 0, cache.Indexers{})
	go informer.Run(i.stop)
	return informer, nil
}

// watch runs Watch until the test ends, as another process than the one before,
// and waits until it has seen what is there.
func (w *world) watch() {
	w.t.Helper()
	w.mustCall("register_function", registration("before::f"))
	w.shim.lifetimes = lifetimes{}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.shim.Watch(ctx, realInformers{w, ctx.Done()}) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Errorf("Watch: %v", err)
		}
	})
	seen := len(w.runtimes()) + len(w.functions())
	eventually(w.t, "the first list", func() bool {
		w.shim.lifetimes.mu.Lock()
		defer w.shim.lifetimes.mu.Unlock()
		return len(w.shim.lifetimes.objects) >= seen
	})
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	id := w.keep(`{"code":"1","lang":"node","keep":true}`)
	expiring := w.keep(`{"code":"1","lang":"python","keep":true}`)
	w.mustCall("register_function", registration("shop::a"))
	w.watch()
	w.subscribe("a::f")

	w.mustCall("teardown", `{"runtime_id":"`+id+`"}`)
	w.wantKinds("a::f", "teardown")
	w.remove(&v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: keptName(expiring)}})
	w.wantKinds("a::f", "teardown", "teardown")
	w.mustCall("teardown", `{"namespace":"shop"}`)
	w.wantKinds("a::f", "teardown", "teardown", "function_unregistered")
	w.remove(&v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "shop-node"}})
	events := w.wantKinds("a::f", "teardown", "teardown", "function_unregistered", "teardown")

	var got []string
	for _, e := range events {
		got = append(got, e["outcome"].(string))
	}
	if diff := cmp.Diff([]string{"torn_down", "gone", "torn_down", "torn_down"}, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	kept := &v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: keptName(id)}}
	if events[0]["reference"] != referenceOf(kept) || events[2]["function_id"] != "shop::a" {
		t.Errorf("events %v", events)
	}
	eventually(t, "forgetting the ids of what is gone", func() bool {
		w.shim.ids.mu.Lock()
		defer w.shim.ids.mu.Unlock()
		return len(w.shim.ids.byName) == 0
	})
}

func TestWatch_twoLanguages(t *testing.T) {
	w := newWorld(t)
	w.watch()
	w.subscribe("a::f")
	w.mustCall("register_function", registration("shop::a"))
	w.mustCall("register_function", registration("shop::b", "lang", "python"))
	w.mustCall("teardown", `{"namespace":"shop"}`)
	six := []string{"runtime_created", "function_registered", "runtime_created", "function_registered",
		"function_unregistered", "function_unregistered"}
	w.wantKinds("a::f", six...)
	for _, name := range []string{"shop-node", "shop-python"} {
		w.remove(&v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name}})
	}
	w.wantKinds("a::f", append(six, "teardown", "teardown")...)
}

// TestWatch_whatCameToNothing: a caller who got no runtime hears of no teardown.
func TestWatch_whatCameToNothing(t *testing.T) {
	w := newWorld(t)
	w.watch()
	w.subscribe("a::f")
	w.results.set(fail(Failure{Code: FailureTimeout}))
	w.callError("run", `{"code":"1","lang":"node","keep":true}`)
	w.onFunction = func(f *v1alpha1.SandboxFunction) {
		w.setCondition(f, v1alpha1.StalledCondition, v1alpha1.SandboxFunctionSourceInvalidReason, "no handler")
	}
	w.callError("register_function", registration("shop::bad"))
	kubectl := &v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "kubectl", UID: "k"}}
	for _, c := range []func(context.Context, client.Object) error{
		func(ctx context.Context, obj client.Object) error { return w.behind.Create(ctx, obj) },
		func(ctx context.Context, obj client.Object) error { return w.behind.Delete(ctx, obj) },
	} {
		if err := c(t.Context(), kubectl); err != nil {
			t.Fatal(err)
		}
	}
	w.results.set(settle(Outcome{}))
	w.mustCall("run", `{"code":"1","lang":"node"}`)
	w.wantKinds("a::f", "run_failed", "run_settled")
}

// remove deletes past the record of writes.
func (w *world) remove(obj client.Object) {
	w.t.Helper()
	if err := w.behind.Delete(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}
