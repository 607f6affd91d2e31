package shim

import (
	"context"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// insider says that one worker is a program in every runtime.
type insider string

func (i insider) Inside(_ context.Context, worker string, _ *v1alpha1.SandboxRuntime) bool {
	return worker == string(i)
}

// keepInUse is a kept runtime whose sandbox runs a program, held by its
// controller until release.
func (w *world) keepInUse() (id string, stopping, release func()) {
	w.t.Helper()
	id = w.keep(`{"code":"1","lang":"node","keep":true}`)
	state := func(s v1alpha1.InstanceState) {
		w.changeKept(id, func(r *v1alpha1.SandboxRuntime) error {
			r.Status.Instances = []v1alpha1.InstanceStatus{{Name: "0", State: s}}
			return w.behind.Status().Update(w.t.Context(), r)
		})
	}
	state(v1alpha1.InstanceReady)
	finalizers := func(names ...string) {
		w.changeKept(id, func(r *v1alpha1.SandboxRuntime) error {
			r.Finalizers = names
			return w.behind.Update(w.t.Context(), r)
		})
	}
	finalizers(v1alpha1.RuntimeFinalizer)
	return id, func() { state(v1alpha1.InstanceStopping) }, func() { finalizers() }
}

func (w *world) changeKept(id string, change func(*v1alpha1.SandboxRuntime) error) {
	w.t.Helper()
	runtime := &v1alpha1.SandboxRuntime{}
	err := w.behind.Get(w.t.Context(), client.ObjectKey{Namespace: testNamespace, Name: keptName(id)}, runtime)
	if err == nil {
		err = change(runtime)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// tearDown calls teardown in the background and waits until the deletion is on
// its way.
func (w *world) tearDown(id string) <-chan error {
	w.t.Helper()
	answered := make(chan error, 1)
	go func() {
		_, err := w.call(w.t.Context(), "teardown", `{"runtime_id":"`+id+`"}`)
		answered <- err
	}()
	eventually(w.t, "the wait", w.clock.HasWaiters)
	wantText(w.t, w.callError("run", `{"code":"1","runtime_id":"`+id+`"}`), "runtime_not_found: unknown runtime_id "+id)
	return answered
}

func (w *world) stillWaits(answered <-chan error) {
	w.t.Helper()
	select {
	case err := <-answered:
		w.t.Fatalf("answered while the program runs: %v", err)
	default:
	}
}

// C08: the record goes at once, the answer comes when the run in flight has
// ended.
func TestTeardownKept_waitsForTheProgram(t *testing.T) {
	for name, end := range map[string]func(w *world, stopping, release func()){
		"its sandbox is being stopped": func(_ *world, stopping, _ func()) { stopping() },
		"the runtime has gone":         func(_ *world, _, release func()) { release() },
		"it goes on beyond its limit":  func(w *world, _, _ func()) { w.clock.Step(w.shim.MaxTimeout + drainGrace) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id, stopping, release := w.keepInUse()
			answered := w.tearDown(id)
			w.stillWaits(answered)
			end(w, stopping, release)
			if err := <-answered; err != nil {
				t.Errorf("teardown: %v", err)
			}
		})
	}
}

// The controller keeps the sandboxes of a runtime that functions use, so that
// nothing would tell when the calls of those that went have ended.
func TestHasNoCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		runtime string
		deleted bool
		want    bool
	}{
		"no function":                    {want: false},
		"a function of another runtime":  {runtime: "other-node", want: false},
		"a function that is there again": {runtime: "app-node", want: true},
		"a function that goes":           {runtime: "app-node", deleted: true, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fleet.set(fleet.Snapshot{Available: true})
			runtime := &v1alpha1.SandboxRuntime{
				ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "app-node"},
				Status:     v1alpha1.SandboxRuntimeStatus{Instances: []v1alpha1.InstanceStatus{{Name: "0", State: v1alpha1.InstanceReady}}},
			}
			w.add(runtime)
			if tc.runtime != "" {
				f := &v1alpha1.SandboxFunction{
					ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "again", Finalizers: []string{v1alpha1.FunctionFinalizer}},
					Status:     v1alpha1.SandboxFunctionStatus{RuntimeName: tc.runtime},
				}
				w.add(f)
				if tc.deleted {
					if err := w.behind.Delete(t.Context(), f); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := w.shim.hasNoCalls(t.Context(), runtime); got != tc.want {
				t.Errorf("hasNoCalls = %v, want %v", got, tc.want)
			}
		})
	}
}

// add makes an object together with its status, behind the shim's back.
func (w *world) add(obj client.Object) {
	w.t.Helper()
	whole := obj.DeepCopyObject().(client.Object)
	err := w.behind.Create(w.t.Context(), obj)
	if err == nil {
		whole.SetResourceVersion(obj.GetResourceVersion())
		err = w.behind.Status().Update(w.t.Context(), whole)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// A program may tear its own runtime down, but not wait for its own turn in it.
func TestKept_calledFromInside(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Programs = insider("the-program") })
	id, _, _ := w.keepInUse()
	call := func(function, worker string) error {
		payload, _ := json.Marshal(map[string]string{"runtime_id": id, "code": "1", callerField: worker})
		_, err := w.bus.handler(w.shim.WorkerName+"::"+function)(t.Context(), bus.Invocation{Data: payload})
		return err
	}
	if err := call("run", "somebody"); err != nil {
		t.Errorf("another worker's run: %v", err)
	}
	before := len(w.results.all())
	err := call("run", "the-program")
	if err == nil {
		t.Fatal("the program runs another one in its own place")
	}
	wantText(t, errorText(t, err), "capacity: ", "one program at a time")
	if got := len(w.results.all()); got != before {
		t.Error("a run was made that cannot begin")
	}
	if err := call("teardown", "the-program"); err != nil {
		t.Errorf("teardown: %v", err)
	}
}

const callerField = "_caller_worker_id"
