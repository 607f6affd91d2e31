package sandboxruntime

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func TestRemove(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(3)))
	w.settle()
	stranger := w.provider.Adopt("not ours", "node")
	w.delete()
	w.settle()
	if left := w.sandboxes(); !w.gone() || len(left) != 1 || left[0].ID != stranger {
		t.Errorf("gone %t, %d sandboxes", w.gone(), len(left))
	}
	if w.memory.get(objectUID) != nil {
		t.Error("the memory of it is left")
	}
}

func TestRemove_whileBooting(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(2)))
	w.provider.OnExec(func(ctx context.Context, _ sandbox.Info, _ sandbox.ExecRequest) (sandbox.ExecResult, error) {
		<-ctx.Done()
		return sandbox.ExecResult{}, sandbox.NewUnknownOutcomeError(ctx.Err())
	})
	w.reconcile()
	w.reconcile()
	eventually(t, "both boots", func() bool { return len(w.provider.Calls(fake.Exec)) == 2 })
	w.delete()
	w.settle()
	if !w.gone() || len(w.sandboxes()) != 0 {
		t.Errorf("gone %t, %d sandboxes", w.gone(), len(w.sandboxes()))
	}
}

func TestRemove_isBounded(t *testing.T) {
	for name, hinder := range map[string]func(w *world){
		"the daemon is away":                     func(w *world) { w.daemonAway() },
		"the daemon is away since before we are": func(w *world) { w.restart(); w.daemonAway() },
		"the sandbox cannot be stopped": func(w *world) {
			for range 100 {
				w.provider.FailNext(fake.Stop, errors.New("S500"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime())
			w.settle()
			w.delete()
			hinder(w)
			for n := range 3 {
				result := w.reconcile()
				w.wait()
				if w.gone() || result.RequeueAfter == 0 || result.RequeueAfter > maxCleanup+time.Second {
					t.Fatalf("look %d: gone %t, next look in %s", n, w.gone(), result.RequeueAfter)
				}
			}
			w.expectReady(metav1.ConditionUnknown, sandboxv1alpha1.DeletingReason)
			w.clock.Step(maxCleanup + 2*time.Second)
			w.reconcile()
			if !w.gone() {
				t.Fatal("the object is held for longer than a minute")
			}
			if got := w.events(); !slices.Contains(got, "CleanupPostponed") {
				t.Errorf("events: %v", got)
			}
			w.reconcile()
		})
	}
}

func TestRemove_finalizerTakenAway(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	obj := w.get()
	obj.Finalizers = nil
	if err := w.api.Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	w.delete()
	w.reconcile()
	if len(w.Table.Instances(w.tableRuntime())) != 0 || w.memory.get(objectUID) != nil {
		t.Error("an object that went without a word still takes calls")
	}
}

// newImplicitWorld has a settled runtime that exists for one function.
func newImplicitWorld(t *testing.T) (*world, *sandboxv1alpha1.SandboxFunction) {
	t.Helper()
	fn := &sandboxv1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: objectKey.Namespace, Name: "price"},
		Spec: sandboxv1alpha1.SandboxFunctionSpec{
			FunctionID: "shop::price", RuntimeRef: &sandboxv1alpha1.LocalReference{Name: objectKey.Name},
		},
	}
	w := newWorld(t, fn, newRuntime(func(obj *sandboxv1alpha1.SandboxRuntime) {
		obj.Labels = map[string]string{sandboxv1alpha1.ImplicitLabel: "true"}
	}))
	w.settle()
	return w, fn
}

func TestRemove_implicitRuntimes(t *testing.T) {
	w, fn := newImplicitWorld(t)
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.get().Status.Functions; got != 1 {
		t.Errorf("%d functions are counted", got)
	}
	if err := w.api.Delete(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if !w.gone() || len(w.sandboxes()) != 0 {
		t.Errorf("gone %t, %d sandboxes", w.gone(), len(w.sandboxes()))
	}
}
