package sandboxruntime

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
)

// stopped is a world whose sandbox has gone for idleness.
func stopped(t *testing.T) *world {
	w := newWorld(t, newRuntime())
	w.settle()
	w.clock.Step(idleTime)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeIdleReason)
	return w
}

// await has a call of a function wait for a sandbox.
func (w *world) await(functionID string) <-chan *publish.Lease {
	w.t.Helper()
	w.Table.Bind(publish.Binding{FunctionID: functionID, Runtime: w.tableRuntime(), SourceDigest: "digest"})
	leases := make(chan *publish.Lease, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		lease, _, _ := w.Table.AcquireFor(ctx, functionID, nil)
		leases <- lease
	}()
	eventually(w.t, "the call to wait", func() bool { return w.Table.Awaited(w.tableRuntime())[functionID] })
	return leases
}

func TestAnswerFirst(t *testing.T) {
	w := stopped(t)
	leases := w.await("shop::price")
	w.reconcile()
	if got := w.states(); got != "0:booting" {
		t.Fatalf("before the create the status says %q", got)
	}
	w.wait()
	written := w.writes
	for range 3 {
		w.look()
		if result := w.reconcile(); result.RequeueAfter > answerFirst || result.RequeueAfter == 0 {
			t.Errorf("it is looked at again in %s", result.RequeueAfter)
		}
	}
	if w.writes != written {
		t.Errorf("%d writes before the call has an answer", w.writes-written)
	}
	instances := w.Table.Instances(w.tableRuntime())
	if len(instances) != 1 {
		t.Fatalf("%d sandboxes take calls", len(instances))
	}
	w.Table.MarkPlanted(w.tableRuntime(), instances[0], "digest")
	lease := <-leases
	if lease == nil {
		t.Fatal("the call had no slot")
	}
	lease.Release()
	w.clock.Step(answerFirst)
	w.reconcile()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.states(); got != "0:ready" || w.writes != written+1 {
		t.Errorf("the status says %q after %d writes", got, w.writes-written)
	}
	w.settle()
	if w.writes != written+1 {
		t.Errorf("%d more writes once everything is told", w.writes-written-1)
	}
}

// bootedForCall has a sandbox that has come for a call, of which the status says
// nothing yet.
func bootedForCall(t *testing.T) *world {
	t.Helper()
	w := stopped(t)
	w.await("shop::price")
	w.reconcile()
	w.wait()
	w.look()
	w.reconcile()
	return w
}

// The operator may end before it has told: its sandbox is nobody's then, and another
// is made.
func TestAnswerFirst_restart(t *testing.T) {
	w := bootedForCall(t)
	former := w.sandboxes()
	w.restart()
	w.await("shop::price")
	w.settle()
	w.clock.Step(answerFirst)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	digests := map[string]bool{}
	for _, i := range w.get().Status.Instances {
		digests[i.Digest] = true
	}
	if len(former) != 1 || len(digests) != 1 {
		t.Fatalf("%d sandboxes before, %d instances after", len(former), len(digests))
	}
	for _, s := range w.fleet.Snapshot().Ours[objectUID] {
		if told := digests[nonceDigest(s.Marker.Nonce)]; told != (s.Info.ID != former[0].ID) {
			t.Errorf("the status names the former sandbox, or not the new one: %t", told)
		}
	}
}

// What has to be announced is written at once, also while something else waits.
func TestAnswerFirst_announcesAtOnce(t *testing.T) {
	w := bootedForCall(t)
	w.edit(withReplicas(2))
	w.reconcile()
	if got := w.states(); got != "0:ready 1:booting" {
		t.Errorf("the status says %q", got)
	}
	w.wait()
}
