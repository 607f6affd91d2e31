package sandboxruntime

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// deletedInUse is a runtime that is deleted while a program runs in it.
func deletedInUse(t *testing.T, adjust ...func(*sandboxv1alpha1.SandboxRuntime)) (*world, *publish.Lease) {
	t.Helper()
	w := newWorld(t, newRuntime(adjust...))
	w.settle()
	lease, err := w.Table.Acquire(t.Context(), w.tableRuntime(), "")
	if err != nil {
		t.Fatal(err)
	}
	w.delete()
	// The deletion has the time of the API server.
	w.clock.SetTime(time.Now())
	return w, lease
}

// C08: the run in flight ends by itself, then the sandbox stops. So does a call of
// a function that is removed with its own runtime.
func TestRemove_drains(t *testing.T) {
	t.Run("a kept runtime", func(t *testing.T) { testDrain(t, keptByTheBus) })
	t.Run("a function's own runtime", func(t *testing.T) { testDrain(t, ofOneFunction) })
}

func testDrain(t *testing.T, adjust func(*sandboxv1alpha1.SandboxRuntime)) {
	w, lease := deletedInUse(t, adjust)
	result := w.settle()
	if w.gone() || len(w.provider.Calls(fake.Stop)) != 0 || result.RequeueAfter > drainPoll || result.RequeueAfter == 0 {
		t.Fatalf("gone %t, %d stops, next look in %s", w.gone(), len(w.provider.Calls(fake.Stop)), result.RequeueAfter)
	}
	w.expectReady(metav1.ConditionUnknown, sandboxv1alpha1.DeletingReason)
	if _, err := w.Table.Acquire(t.Context(), w.tableRuntime(), ""); !errors.Is(err, publish.ErrRuntimeGone) {
		t.Errorf("another program got %v", err)
	}
	w.clock.Step(maxCleanup + time.Second)
	w.settle()
	if w.gone() || len(w.sandboxes()) != 1 {
		t.Fatal("the program did not get its time")
	}
	lease.Release()
	w.settle()
	if !w.gone() || len(w.sandboxes()) != 0 {
		t.Errorf("gone %t, %d sandboxes", w.gone(), len(w.sandboxes()))
	}
	for _, e := range w.events() {
		if e == "CleanupPostponed" {
			t.Error("the drain counted as clean-up")
		}
	}
}

// The clean-up has its time from the end of the program on.
func TestRemove_boundedAfterADrain(t *testing.T) {
	w, lease := deletedInUse(t, keptByTheBus)
	for range 100 {
		w.provider.FailNext(fake.Stop, errors.New("S500"))
	}
	w.settle()
	w.clock.Step(2 * maxCleanup)
	w.settle()
	lease.Release()
	w.settle()
	if w.gone() {
		t.Fatal("the sandbox that cannot be stopped was given up at once")
	}
	w.clock.Step(maxCleanup + time.Second)
	w.reconcile()
	if !w.gone() {
		t.Error("the object is held for longer than a minute")
	}
}

func TestRemove_stopsAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		adjust []func(*sandboxv1alpha1.SandboxRuntime)
		waited time.Duration
	}{
		"what no caller keeps":                {},
		"a program that goes on for ever":     {[]func(*sandboxv1alpha1.SandboxRuntime){keptByTheBus}, maxDrain + time.Second},
		"one that kubectl made to be deleted": {[]func(*sandboxv1alpha1.SandboxRuntime){keptByTheBus, ofKubectl}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, lease := deletedInUse(t, tc.adjust...)
			defer lease.Release()
			w.clock.Step(tc.waited)
			w.settle()
			if !w.gone() || len(w.sandboxes()) != 0 {
				t.Errorf("gone %t, %d sandboxes", w.gone(), len(w.sandboxes()))
			}
		})
	}
}

func ofOneFunction(obj *sandboxv1alpha1.SandboxRuntime) {
	obj.Labels = map[string]string{sandboxv1alpha1.OwnLabel: "true"}
}

func ofKubectl(obj *sandboxv1alpha1.SandboxRuntime) { obj.Labels = nil }

// An implicit runtime stays for the calls of functions that have gone, and is whole
// for a new function meanwhile.
func TestRemoveImplicit_drains(t *testing.T) {
	for name, end := range map[string]func(w *world, lease *publish.Lease){
		"the call ends": func(_ *world, lease *publish.Lease) { lease.Release() },
		"one that goes on for ever": func(w *world, lease *publish.Lease) {
			w.t.Cleanup(lease.Release)
			w.clock.Step(maxDrain + time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, lease := unusedInUse(t)
			result := w.settle()
			if obj := w.get(); !obj.DeletionTimestamp.IsZero() || len(w.sandboxes()) != 1 {
				t.Fatalf("deleted at %v, %d sandboxes", obj.DeletionTimestamp, len(w.sandboxes()))
			}
			if result.RequeueAfter > drainPoll || result.RequeueAfter == 0 {
				t.Errorf("next look in %s", result.RequeueAfter)
			}
			if other, err := w.Table.Acquire(t.Context(), w.tableRuntime(), ""); err != nil {
				t.Errorf("a new function's call: %v", err)
			} else {
				other.Release()
			}
			end(w, lease)
			w.settle()
			if !w.gone() || len(w.sandboxes()) != 0 {
				t.Errorf("gone %t, %d sandboxes", w.gone(), len(w.sandboxes()))
			}
		})
	}
}

// unusedInUse is an implicit runtime whose last function goes while its call is in
// flight.
func unusedInUse(t *testing.T) (*world, *publish.Lease) {
	t.Helper()
	w, fn := newImplicitWorld(t)
	lease, err := w.Table.Acquire(t.Context(), w.tableRuntime(), "")
	if err == nil {
		err = w.api.Delete(t.Context(), fn)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w, lease
}
