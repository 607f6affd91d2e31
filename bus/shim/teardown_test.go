package shim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

func TestTeardown_refusals(t *testing.T) {
	cases := map[string]struct {
		payload string
		want    []string
	}{
		"both selectors":        {`{"runtime_id":"rt-x","namespace":"shop"}`, []string{"invalid_request: ", "not both"}},
		"both, one of them bad": {`{"runtime_id":"","namespace":""}`, []string{"invalid_request: ", "not both"}},
		"no selector":           {`{}`, []string{"invalid_request: ", "runtime_id", "namespace"}},
		"both null":             {`{"runtime_id":null,"namespace":null}`, []string{"invalid_request: ", "runtime_id", "namespace"}},
		"namespace of a number": {`{"namespace":1}`, []string{"invalid_request: namespace must be a string"}},
		"unknown runtime":       {`{"runtime_id":"rt-x"}`, []string{"runtime_not_found: unknown runtime_id rt-x"}},
		"a long unknown runtime is echoed in part": {
			`{"runtime_id":"` + strings.Repeat("é", 500) + `"}`, []string{"runtime_not_found: unknown runtime_id é", "…"}},
		"unknown namespace": {`{"namespace":"shop"}`, []string{`runtime_not_found: namespace "shop::" has no runtime`}},
		"empty namespace":   {`{"namespace":""}`, []string{"invalid_request: "}},
		"only colons":       {`{"namespace":"::"}`, []string{"invalid_request: "}},
		"upper case":        {`{"namespace":"Shop"}`, []string{"invalid_request: "}},
		"two dots":          {`{"namespace":"a..b"}`, []string{"invalid_request: "}},
		"leading dot":       {`{"namespace":".x"}`, []string{"invalid_request: "}},
		"embedded colons":   {`{"namespace":"a::b"}`, []string{"invalid_request: "}},
		"force by id":       {`{"runtime_id":"rt-x","force":true}`, []string{"invalid_request: force is for a namespace"}},
		"force that is off": {`{"namespace":"shop","force":true}`, []string{"invalid_request: force", "--allow-force-teardown"}},
		"force of a string": {`{"namespace":"shop","force":"yes"}`, []string{"invalid_request: force must be"}},
		"a whole id":        {`{"namespace":"a::b::"}`, []string{"invalid_request: "}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			wantText(t, w.callError("teardown", tc.payload), tc.want...)
			if diff := cmp.Diff([]string{}, w.wrote()); diff != "" {
				t.Errorf("a refused teardown wrote (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTeardownPrefix(t *testing.T) {
	for _, spelling := range []string{"shop", "shop::"} {
		t.Run(spelling, func(t *testing.T) {
			w := newWorld(t)
			for _, id := range []string{"shop::z", "shop::a::b", "shop2::x", "shop::m"} {
				w.mustCall("register_function", registration(id, "lang", map[bool]string{true: "python", false: "node"}[id == "shop::m"]))
				w.clock.Step(time.Nanosecond)
			}
			kubectl := &v1alpha1.SandboxFunction{
				ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "kubectl"},
				Spec:       v1alpha1.SandboxFunctionSpec{FunctionID: "shop::kubectl", Language: v1alpha1.LanguageNode},
			}
			if err := w.api.Create(t.Context(), kubectl); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"namespace": "shop::", "torn_down": true, "unregistered": []any{"shop::z", "shop::a::b", "shop::m"},
			}
			if diff := cmp.Diff(want, w.mustCall("teardown", map[string]any{"namespace": spelling})); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			var left []string
			for _, f := range w.functions() {
				left = append(left, f.Spec.FunctionID)
			}
			if diff := cmp.Diff([]string{"shop::kubectl", "shop2::x"}, left); diff != "" {
				t.Errorf("functions left (-want +got):\n%s", diff)
			}
			wantText(t, w.callError("teardown", map[string]any{"namespace": spelling}), "runtime_not_found: ", `"shop::"`, "kubectl")
			w.mustCall("register_function", registration("shop::z"))
		})
	}
}

func TestTeardownPrefix_comparesTheIDBesideTheHash(t *testing.T) {
	w := newWorld(t)
	w.mustCall("register_function", registration("shop::price"))
	collision := w.shim.newFunction(t.Context(), registerRequest{functionID: "other::price", language: v1alpha1.LanguageNode}, "shop")
	if err := w.api.Create(t.Context(), collision); err != nil {
		t.Fatal(err)
	}
	response := w.mustCall("teardown", `{"namespace":"shop"}`)
	if diff := cmp.Diff([]any{"shop::price"}, response["unregistered"]); diff != "" {
		t.Errorf("unregistered (-want +got):\n%s", diff)
	}
}

func TestTeardownPrefix_removesStoredSources(t *testing.T) {
	w := newWorld(t)
	w.mustCall("register_function", registration("shop::big", "source", strings.Repeat("x", 1<<20)))
	w.mustCall("teardown", `{"namespace":"shop"}`)
	if left := w.configMaps(); len(left) != 0 {
		t.Errorf("%d ConfigMaps left", len(left))
	}
}

func TestTeardownPrefix_waitsUntilTheyAreOffTheBus(t *testing.T) {
	w := newWorld(t)
	w.addLeavingSlowly("shop::a", "shop::b")
	done := make(chan error, 1)
	go func() {
		_, err := w.call(t.Context(), "teardown", `{"namespace":"shop"}`)
		done <- err
	}()
	eventually(t, "the wait", w.clock.HasWaiters)
	w.release("shop::a")
	select {
	case err := <-done:
		t.Fatalf("answered before shop::b was off the bus: %v", err)
	default:
	}
	w.release("shop::b")
	if err := <-done; err != nil {
		t.Errorf("teardown: %v", err)
	}
}

func TestTeardownPrefix_givesUpAndCanBeRepeated(t *testing.T) {
	w := newWorld(t)
	w.addLeavingSlowly("shop::a", "shop::b")
	done := make(chan error, 1)
	go func() {
		_, err := w.call(t.Context(), "teardown", `{"namespace":"shop"}`)
		done <- err
	}()
	eventually(t, "the wait", w.clock.HasWaiters)
	w.release("shop::a")
	w.clock.Step(teardownTimeout)
	wantText(t, errorText(t, <-done), "engine: ", "again")
	go func() {
		response, err := w.call(t.Context(), "teardown", `{"namespace":"shop"}`)
		if err == nil && fmt.Sprint(response["unregistered"]) != "[shop::b]" {
			err = fmt.Errorf("unregistered %v", response["unregistered"])
		}
		done <- err
	}()
	eventually(t, "the second wait", w.clock.HasWaiters)
	w.release("shop::b")
	if err := <-done; err != nil {
		t.Errorf("second teardown: %v", err)
	}
}

func TestTeardownPrefix_goesOnAfterAnError(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"shop::a", "shop::b", "shop::c"} {
		w.mustCall("register_function", registration(id))
	}
	w.setFault(func(verb string, obj client.Object) error {
		if f, ok := obj.(*v1alpha1.SandboxFunction); ok && verb == "delete" && f.Spec.FunctionID == "shop::b" {
			return apierrors.NewInternalError(errors.New("etcd"))
		}
		return nil
	})
	wantText(t, w.callError("teardown", `{"namespace":"shop"}`), "engine: ", "again", "unregistered so far: shop::a, shop::c")
	if left := w.functions(); len(left) != 1 || left[0].Spec.FunctionID != "shop::b" {
		t.Errorf("%d functions left", len(left))
	}
	w.setFault(nil)
	w.mustCall("teardown", `{"namespace":"shop"}`)
}

func TestTeardownPrefix_force(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AllowForceTeardown = true })
	w.mustCall("register_function", registration("shop::bus"))
	w.clock.Step(time.Minute)
	w.addFromKubectl("shop::kubectl", "shop2::kubectl")
	want := map[string]any{"namespace": "shop::", "torn_down": true, "unregistered": []any{"shop::bus", "shop::kubectl"}}
	if diff := cmp.Diff(want, w.mustCall("teardown", `{"namespace":"shop","force":true}`)); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	if left := w.functions(); len(left) != 1 || left[0].Spec.FunctionID != "shop2::kubectl" {
		t.Errorf("%d functions left", len(left))
	}
	wantText(t, w.callError("teardown", `{"namespace":"shop","force":true}`), "runtime_not_found: ")
}

// Of many functions, only those of the prefix are looked at, with force and
// without.
func TestTeardownPrefix_looksAtThePrefixOnly(t *testing.T) {
	var seen []string
	w := newWorld(t, func(o *Options) {
		o.AllowForceTeardown = true
		o.Client = interceptor.NewClient(o.Client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				err := c.List(ctx, list, opts...)
				if functions, ok := list.(*v1alpha1.SandboxFunctionList); ok {
					for i := range functions.Items {
						seen = append(seen, functions.Items[i].Spec.FunctionID)
					}
				}
				return err
			},
		})
	})
	for i := range 50 {
		w.addFromKubectl(fmt.Sprintf("shop%d::f", i))
	}
	w.addFromKubectl("shop::a", "shop::b")
	for _, tc := range []struct {
		request, namespace string
		want               []string
	}{
		{`{"namespace":"shop"}`, "shop", []string{"shop::a", "shop::b"}},
		{`{"namespace":"absent"}`, "absent", nil},
	} {
		seen = nil
		wantText(t, w.callError("teardown", tc.request), "runtime_not_found: ")
		if slices.Sort(seen); !slices.Equal(seen, tc.want) {
			t.Errorf("a teardown of %s looked at %q, want %q", tc.namespace, seen, tc.want)
		}
	}
	seen = nil
	w.mustCall("teardown", `{"namespace":"shop","force":true}`)
	for _, id := range seen {
		if !strings.HasPrefix(id, "shop::") {
			t.Errorf("a teardown by force looked at %s", id)
		}
	}
	if left := len(w.functions()); left != 50 {
		t.Errorf("%d functions left, want 50", left)
	}
}

// addFromKubectl adds functions that no caller of the bus made.
func (w *world) addFromKubectl(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		f := &v1alpha1.SandboxFunction{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: functionName(id)},
			Spec:       v1alpha1.SandboxFunctionSpec{FunctionID: id, Language: v1alpha1.LanguageNode},
		}
		if err := w.api.Create(w.t.Context(), f); err != nil {
			w.t.Fatal(err)
		}
	}
}

// addLeavingSlowly adds bus-made functions that stay until they are released.
func (w *world) addLeavingSlowly(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		f := w.shim.newFunction(w.t.Context(), registerRequest{functionID: id, language: v1alpha1.LanguageNode}, "shop")
		f.Finalizers = []string{v1alpha1.FunctionFinalizer}
		if err := w.api.Create(w.t.Context(), f); err != nil {
			w.t.Fatal(err)
		}
		w.clock.Step(time.Nanosecond)
	}
}

// inFlight is a function on the bus whose runtime has a sandbox with a call in it,
// until its controller says stopping.
func (w *world) inFlight(id string) (runtime func(change func(*v1alpha1.SandboxRuntime)), stopping func()) {
	w.t.Helper()
	w.fleet.set(fleet.Snapshot{Available: true})
	w.mustCall("register_function", registration(id))
	name := w.functions()[0].Status.RuntimeName
	runtime = func(change func(*v1alpha1.SandboxRuntime)) {
		w.t.Helper()
		found := &v1alpha1.SandboxRuntime{}
		err := w.behind.Get(w.t.Context(), client.ObjectKey{Namespace: testNamespace, Name: name}, found)
		if err == nil {
			change(found)
			err = w.behind.Status().Update(w.t.Context(), found)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	state := func(s v1alpha1.InstanceState) {
		runtime(func(r *v1alpha1.SandboxRuntime) {
			r.Status.Instances = []v1alpha1.InstanceStatus{{Name: "0", State: s}}
		})
	}
	state(v1alpha1.InstanceReady)
	return runtime, func() { state(v1alpha1.InstanceStopping) }
}

// A namespace is drained as a kept runtime is (contracts/code-runner.md §4.3).
func TestTeardownPrefix_waitsForCallsInFlight(t *testing.T) {
	for name, end := range map[string]func(w *world, stopping func(), answered <-chan error){
		"the calls have ended": func(_ *world, stopping func(), _ <-chan error) { stopping() },
		"the daemon is away":   func(w *world, _ func(), _ <-chan error) { w.fleet.set(fleet.Snapshot{}) },
		"one goes beyond its limit": func(w *world, _ func(), answered <-chan error) {
			// The wait may be about to begin.
			eventually(w.t, "an answer", func() bool {
				w.clock.Step(w.shim.DefaultTimeout + drainGrace)
				return len(answered) > 0
			})
		},
		"another function is there": func(w *world, _ func(), _ <-chan error) {
			w.mustCall("register_function", registration("shop::next"))
		},
		"the runtime went unnoticed": func(w *world, _ func(), _ <-chan error) { w.removeRuntimes() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, stopping := w.inFlight("shop::price")
			answered := make(chan error, 1)
			go func() {
				_, err := w.call(t.Context(), "teardown", `{"namespace":"shop"}`)
				answered <- err
			}()
			eventually(t, "the wait", func() bool { return len(w.functions()) == 0 && w.clock.HasWaiters() })
			w.stillWaits(answered)
			end(w, stopping, answered)
			select {
			case err := <-answered:
				if err != nil {
					t.Errorf("teardown: %v", err)
				}
			case <-time.After(patience):
				t.Fatal("no answer")
			}
		})
	}
}

func (w *world) removeRuntimes() {
	w.t.Helper()
	if err := w.behind.DeleteAllOf(w.t.Context(), &v1alpha1.SandboxRuntime{}, client.InNamespace(testNamespace)); err != nil {
		w.t.Fatal(err)
	}
}

// What does not end with the functions is not waited for, nor is the caller itself.
func TestTeardownPrefix_doesNotWait(t *testing.T) {
	for name, prepare := range map[string]func(w *world, runtime func(func(*v1alpha1.SandboxRuntime))){
		"for a runtime of its own life": func(w *world, _ func(func(*v1alpha1.SandboxRuntime))) {
			for _, r := range w.runtimes() {
				r.Labels = nil
				if err := w.behind.Update(w.t.Context(), &r); err != nil {
					w.t.Fatal(err)
				}
			}
		},
		"for functions that kubectl made": func(w *world, _ func(func(*v1alpha1.SandboxRuntime))) {
			other := &v1alpha1.SandboxFunction{
				ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "kubectl"},
				Spec:       v1alpha1.SandboxFunctionSpec{FunctionID: "shop::kubectl", Language: v1alpha1.LanguageNode},
			}
			if err := w.api.Create(w.t.Context(), other); err != nil {
				w.t.Fatal(err)
			}
		},
		"without a sandbox": func(_ *world, runtime func(func(*v1alpha1.SandboxRuntime))) {
			runtime(func(r *v1alpha1.SandboxRuntime) { r.Status.Instances = nil })
		},
		"for itself": func(w *world, _ func(func(*v1alpha1.SandboxRuntime))) { w.shim.Programs = insider("the-program") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			runtime, _ := w.inFlight("shop::price")
			prepare(w, runtime)
			payload := `{"namespace":"shop","` + callerField + `":"the-program"}`
			if _, err := w.bus.handler(w.shim.WorkerName+"::teardown")(t.Context(), bus.Invocation{Data: []byte(payload)}); err != nil {
				t.Errorf("teardown: %v", err)
			}
		})
	}
}
