package sandboxruntime

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

func TestIdle(t *testing.T) {
	w := newWorld(t, newRuntime())
	if result := w.settle(); result.RequeueAfter > idleTime || result.RequeueAfter == 0 {
		t.Errorf("it is looked at again in %s", result.RequeueAfter)
	}
	w.clock.Step(idleTime - time.Second)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	lease, err := w.Table.Acquire(t.Context(), w.tableRuntime(), "")
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Step(2 * idleTime)
	// The end of the call wakes nobody, so the next look must come by itself.
	if result := w.settle(); result.RequeueAfter > idleTime || result.RequeueAfter == 0 {
		t.Errorf("while a call runs, it is looked at again in %s", result.RequeueAfter)
	}
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	lease.Release()
	w.clock.Step(idleTime)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeIdleReason)
	if len(w.sandboxes()) != 0 {
		t.Fatalf("%d sandboxes are left", len(w.sandboxes()))
	}
	w.restart()
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeIdleReason)

	// A call wakes it, and has its slot once the sandbox is there.
	leases := make(chan *publish.Lease, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		lease, _ := w.Table.Acquire(ctx, w.tableRuntime(), "")
		leases <- lease
	}()
	eventually(t, "the call to wait", func() bool { return w.Table.Activity(w.tableRuntime()).Wanted })
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	woken := <-leases
	if woken == nil {
		t.Fatal("the call had no slot")
	}
	woken.Release()
}

func TestIdle_policies(t *testing.T) {
	seconds := int32(30)
	for name, tc := range map[string]struct {
		policy sandboxv1alpha1.IdlePolicy
		after  time.Duration
		reason string
	}{
		"a time of its own":        {sandboxv1alpha1.IdlePolicy{TimeoutSeconds: &seconds}, 30 * time.Second, sandboxv1alpha1.SandboxRuntimeIdleReason},
		"kept for ever":            {sandboxv1alpha1.IdlePolicy{Action: sandboxv1alpha1.IdleKeep}, 1000 * time.Hour, sandboxv1alpha1.ReadyReason},
		"of a user, never deleted": {sandboxv1alpha1.IdlePolicy{Action: sandboxv1alpha1.IdleDelete}, idleTime, sandboxv1alpha1.SandboxRuntimeIdleReason},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Idle = &tc.policy }))
			w.settle()
			w.clock.Step(tc.after)
			w.settle()
			w.expectReady(metav1.ConditionTrue, tc.reason)
		})
	}
}

func TestIdle_isNotReadyByHope(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.reconcile()
	for range 40 {
		w.provider.NextCreateErr(sandbox.NewCapacityError("full"))
	}
	for range 20 {
		w.settle()
		w.clock.Step(time.Minute)
	}
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.CapacityReason)
}

func TestIdle_changedSpecBoots(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	w.edit(suspended)
	w.settle()
	w.clock.Step(10 * idleTime)
	w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Suspend = false })
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
}

func TestSuspend_answersWhoWaits(t *testing.T) {
	for name, change := range map[string]func(*sandboxv1alpha1.SandboxRuntime){
		"suspended": suspended, "scaled to zero": withReplicas(0),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(change))
			w.settle()
			errs := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				_, err := w.Table.Acquire(ctx, w.tableRuntime(), "")
				errs <- err
			}()
			eventually(t, "the call to wait", func() bool { return w.Table.Activity(w.tableRuntime()).Wanted })
			w.settle()
			if err := <-errs; !errors.Is(err, publish.ErrRuntimeGone) {
				t.Errorf("the call got %v", err)
			}
			if w.creates() != 0 {
				t.Error("a sandbox was made")
			}
		})
	}
}

func TestKept_goesWithItsSandbox(t *testing.T) {
	for name, tc := range map[string]func(w *world){
		"when it is lost": func(w *world) { w.provider.Lose(w.sandboxes()[0].ID) },
		"when it was lost while the operator was away": func(w *world) { w.provider.Lose(w.sandboxes()[0].ID); w.restart() },
		"when nobody uses it": func(w *world) {
			w.clock.Step(idleTime)
			w.reconcile()
			// The deletion has the time of the API server, which does not jump.
			w.clock.SetTime(time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(keptByTheBus))
			w.settle()
			w.clock.Step(time.Second)
			tc(w)
			w.settle()
			if !w.gone() || len(w.sandboxes()) != 0 || w.creates() != 1 {
				t.Errorf("gone %t, %d sandboxes, %d creates", w.gone(), len(w.sandboxes()), w.creates())
			}
		})
	}
}
