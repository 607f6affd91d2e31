package sandboxruntime

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func TestRoll(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(2)))
	w.settle()
	old := w.get().Status.Instances
	// A call is under way in the first of the old ones.
	lease, err := w.Table.Acquire(t.Context(), w.tableRuntime(), "")
	if err != nil {
		t.Fatal(err)
	}
	w.provider.onCreate = func(sandbox.CreateRequest) {
		if len(w.Table.Instances(w.tableRuntime())) < 2 {
			t.Error("an old sandbox was taken out of service before a new one was ready")
		}
	}
	w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Image = "other" })
	w.settle()
	w.expectReady(metav1.ConditionUnknown, sandboxv1alpha1.SandboxRuntimeBootingReason)
	if got := w.states(); got != "0:ready 1:ready 2:ready" {
		t.Errorf("while a call runs in the old sandbox the instances are %s", got)
	}
	lease.Release()
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.states(); got != "1:ready 2:ready" || w.get().Status.Instances[0].TemplateDigest == old[0].TemplateDigest {
		t.Errorf("in the end the instances are %s", got)
	}
}

func TestScale(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(2)))
	w.settle()
	var leases []*publish.Lease
	for range 2 {
		lease, err := w.Table.Acquire(t.Context(), w.tableRuntime(), "")
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
	}
	w.edit(withReplicas(1))
	if result := w.settle(); result.RequeueAfter != drainPoll {
		t.Errorf("the draining instance is looked at in %s", result.RequeueAfter)
	}
	w.expectReady(metav1.ConditionUnknown, sandboxv1alpha1.ProgressingReason)
	if got := len(w.Table.Instances(w.tableRuntime())); got != 1 {
		t.Errorf("%d instances take calls", got)
	}
	w.edit(withReplicas(2))
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := len(w.Table.Instances(w.tableRuntime())); got != 2 || w.creates() != 2 {
		t.Errorf("scaled back, %d instances take calls after %d creates", got, w.creates())
	}
	w.edit(withReplicas(0))
	w.settle()
	for _, lease := range leases {
		lease.Release()
	}
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeScaledToZeroReason)
	if len(w.sandboxes()) != 0 {
		t.Errorf("%d sandboxes are left", len(w.sandboxes()))
	}
}

// TestRetire_bootThatComesThrough cancels a boot that then succeeds: its sandbox
// is stopped, not forgotten.
func TestRetire_bootThatComesThrough(t *testing.T) {
	w := newWorld(t, newRuntime())
	booting, goOn := make(chan struct{}), make(chan struct{})
	healthy := agentReplies(t)
	w.provider.OnExec(func(_ context.Context, info sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		close(booting)
		<-goOn
		return healthy(context.Background(), info, req)
	})
	w.reconcile()
	w.reconcile()
	<-booting
	w.edit(suspended)
	w.reconcile()
	if got := w.states(); got != "0:booting" {
		t.Errorf("before the boot ends the instances are %s", got)
	}
	close(goOn)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SuspendedReason)
	if len(w.sandboxes()) != 0 || len(w.Table.Instances(w.tableRuntime())) != 0 {
		t.Errorf("%d sandboxes are left", len(w.sandboxes()))
	}
}

func TestRetire_cancelledBootIsNoFailure(t *testing.T) {
	w := newWorld(t, newRuntime())
	booting := make(chan struct{})
	w.provider.OnExec(func(ctx context.Context, _ sandbox.Info, _ sandbox.ExecRequest) (sandbox.ExecResult, error) {
		close(booting)
		<-ctx.Done()
		return sandbox.ExecResult{}, sandbox.NewUnknownOutcomeError(ctx.Err())
	})
	w.reconcile()
	w.reconcile()
	<-booting
	w.edit(suspended)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SuspendedReason)
	if known := w.memory.get(objectUID); known.failure != nil || len(w.sandboxes()) != 0 {
		t.Errorf("failure %+v, %d sandboxes", known.failure, len(w.sandboxes()))
	}
}

func TestStop_isRepeated(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	w.provider.FailNext(fake.Stop, errors.New("S500"), errors.New("S500"))
	w.edit(suspended)
	result := w.settle()
	if stops := len(w.provider.Calls(fake.Stop)); stops != 1 || result.RequeueAfter > stopRetry || result.RequeueAfter == 0 {
		t.Errorf("%d stops at once, the next in %s", stops, result.RequeueAfter)
	}
	w.expectReady(metav1.ConditionUnknown, sandboxv1alpha1.ProgressingReason)
	for range 2 {
		w.clock.Step(stopRetry)
		w.settle()
	}
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SuspendedReason)
	if len(w.sandboxes()) != 0 {
		t.Errorf("%d sandboxes are left", len(w.sandboxes()))
	}
}
