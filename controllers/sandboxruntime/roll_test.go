package sandboxruntime

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func withOtherImage(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Image = "other" }

// images counts the sandboxes by image.
func (w *world) images() map[string]int {
	images := map[string]int{}
	for _, info := range w.sandboxes() {
		images[info.Image]++
	}
	return images
}

func TestRoll_oneByOne(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(5)))
	w.settle()
	w.provider.onCreate = func(sandbox.CreateRequest) {
		if got := len(w.sandboxes()); got != 5 {
			t.Errorf("a new sandbox is made beside %d, want 5", got)
		}
		if got := len(w.Table.Instances(w.tableRuntime())); got < 5 {
			t.Errorf("only %d sandboxes take calls", got)
		}
	}
	w.edit(withOtherImage)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.images(); got["other"] != 5 || len(got) != 1 || w.creates() != 10 {
		t.Errorf("in the end there are %v after %d creates", got, w.creates())
	}
}

func TestRoll_withoutRoom(t *testing.T) {
	for name, replicas := range map[string]int{"one": 1, "several": 4} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(withReplicas(int32(replicas))))
			w.settle()
			w.provider.Limit(replicas)
			w.provider.onCreate = func(sandbox.CreateRequest) {
				if got := len(w.Table.Instances(w.tableRuntime())); got < replicas-1 {
					t.Errorf("only %d of %d sandboxes take calls", got, replicas)
				}
			}
			w.edit(withOtherImage)
			w.settle()
			w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
			if got := w.images(); got["other"] != replicas || len(got) != 1 {
				t.Errorf("in the end there are %v", got)
			}
		})
	}
}

func TestRoll_finishesCallsFirst(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	w.provider.Limit(1)
	lease, err := w.Table.Acquire(t.Context(), w.tableRuntime(), "")
	if err != nil {
		t.Fatal(err)
	}
	w.edit(withOtherImage)
	if result := w.settle(); result.RequeueAfter == 0 || result.RequeueAfter > drainPoll {
		t.Errorf("the draining sandbox is looked at in %s", result.RequeueAfter)
	}
	if got := w.images(); got["node"] != 1 {
		t.Errorf("while a call runs there are %v", got)
	}
	lease.Release()
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.images(); got["other"] != 1 || len(got) != 1 {
		t.Errorf("in the end there are %v", got)
	}
}

func TestRoll_waitsForTheFunctions(t *testing.T) {
	for name, goOn := range map[string]func(w *world, fresh publish.Instance){
		"to be replanted": func(w *world, fresh publish.Instance) {
			w.Table.MarkPlanted(w.tableRuntime(), fresh, "d")
		},
		"but not for ever":              func(w *world, _ publish.Instance) { w.clock.Step(replantPatience) },
		"unless they are bound no more": func(w *world, _ publish.Instance) { w.Table.Unbind("shop::price") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime())
			w.settle()
			old := w.Table.Instances(w.tableRuntime())[0]
			w.Table.MarkPlanted(w.tableRuntime(), old, "d")
			w.Table.Bind(publish.Binding{FunctionID: "shop::price", Runtime: w.tableRuntime(), SourceDigest: "d"})
			w.edit(withOtherImage)
			if result := w.settle(); result.RequeueAfter != replantPoll {
				t.Errorf("it is looked at again in %s", result.RequeueAfter)
			}
			w.expectReady(metav1.ConditionUnknown, sandboxv1alpha1.SandboxRuntimeBootingReason)
			if got := w.states(); got != "0:ready 1:ready" || len(w.Table.Unplanted(w.tableRuntime(), "d")) != 1 {
				t.Errorf("while the function is in the old sandbox only, the instances are %s", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			lease, err := w.Table.Acquire(ctx, w.tableRuntime(), "d")
			if err != nil || lease.Name != old.Name {
				t.Fatalf("the call goes to %+v, %v", lease, err)
			}
			lease.Release()
			goOn(w, w.Table.Unplanted(w.tableRuntime(), "d")[0])
			w.settle()
			w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
			if got := w.states(); got != "1:ready" {
				t.Errorf("in the end the instances are %s", got)
			}
		})
	}
}

func TestRoll_changesBeforeItEnds(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(3)))
	w.settle()
	w.edit(withOtherImage)
	for range 4 {
		w.look()
		w.reconcile()
		w.wait()
	}
	w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Image = "third" })
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.images(); got["third"] != 3 || len(got) != 1 {
		t.Errorf("in the end there are %v", got)
	}
}

func TestRoll_failedBootKeepsTheOld(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(2)))
	w.settle()
	w.edit(withOtherImage)
	w.provider.FailNext(fake.Create, sandbox.NewRejectedError("S100", "no such image"))
	w.settle()
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimeImageRejectedReason)
	if got := len(w.Table.Instances(w.tableRuntime())); got != 2 {
		t.Errorf("%d sandboxes take calls", got)
	}
}

func TestScale_theIdleGoesFirst(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(3)))
	w.settle()
	var leases []*publish.Lease
	for range 3 {
		lease, err := w.Table.Acquire(t.Context(), w.tableRuntime(), "")
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
	}
	leases[1].Release()
	w.edit(withReplicas(2))
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	for _, i := range w.get().Status.Instances {
		if i.Name == leases[1].Name {
			t.Errorf("the idle one of %+v is left", w.get().Status.Instances)
		}
	}
	w.clock.Step(time.Second)
}
