package sandboxruntime

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/capacity"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// call takes a slot, which boots a sandbox if it must, and gives it back.
func (w *world) call() {
	w.t.Helper()
	leases := make(chan *publish.Lease, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		lease, _ := w.Table.Acquire(ctx, w.tableRuntime(), "")
		leases <- lease
	}()
	eventually(w.t, "the call to be there", func() bool {
		a := w.Table.Activity(w.tableRuntime())
		return a.Wanted || a.InFlight > 0
	})
	w.settle()
	lease := <-leases
	if lease == nil {
		w.t.Fatal("the call had no slot")
	}
	lease.Release()
}

func TestDisplace(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	w.clock.Step(displaceAfter - time.Millisecond)
	if w.Displace() {
		t.Error("a sandbox went that was in use a moment ago")
	}
	w.clock.Step(time.Millisecond)
	if !w.Displace() || w.Displace() {
		t.Error("the one idle sandbox goes once")
	}
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeIdleReason)
	if len(w.sandboxes()) != 0 || w.creates() != 1 {
		t.Errorf("%d sandboxes are left after %d creates", len(w.sandboxes()), w.creates())
	}
	version := w.get().ResourceVersion
	w.settle()
	if got := w.get().ResourceVersion; got != version {
		t.Error("looking again wrote")
	}
	w.call()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
}

func TestDisplace_oneOfSeveral(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(3)))
	w.settle()
	w.clock.Step(displaceAfter)
	if !w.Displace() {
		t.Fatal("no sandbox goes")
	}
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.get().Status; got.ReadyReplicas != 2 || w.creates() != 3 {
		t.Errorf("%d sandboxes take calls after %d creates", got.ReadyReplicas, w.creates())
	}
	// Nobody waits, so it does not come back by itself; another spec brings it back.
	w.clock.Step(time.Minute)
	w.settle()
	if w.creates() != 3 {
		t.Error("it came back though nobody waits")
	}
	w.edit(withOtherImage)
	w.settle()
	if got := w.get().Status.ReadyReplicas; got != 3 {
		t.Errorf("with another spec %d sandboxes take calls", got)
	}
}

func TestDisplace_whoNeverGoes(t *testing.T) {
	busy := func(w *world) {
		if _, err := w.Table.Acquire(w.t.Context(), w.tableRuntime(), ""); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		change func(*sandboxv1alpha1.SandboxRuntime)
		before func(w *world)
	}{
		"a busy one": {func(*sandboxv1alpha1.SandboxRuntime) {}, busy},
		"one to keep": {func(obj *sandboxv1alpha1.SandboxRuntime) {
			obj.Spec.Idle = &sandboxv1alpha1.IdlePolicy{Action: sandboxv1alpha1.IdleKeep}
		}, func(*world) {}},
		"one that a bus caller keeps": {keptByTheBus, func(*world) {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(tc.change))
			w.settle()
			tc.before(w)
			w.clock.Step(time.Minute)
			if w.Displace() {
				t.Error("it went")
			}
		})
	}
	t.Run("one whose runtime has gone", func(t *testing.T) {
		w := newWorld(t, newRuntime())
		w.settle()
		w.delete()
		w.settle()
		if w.Displace() {
			t.Error("it went")
		}
	})
}

// TestDisplace_aCallThatComesMeanwhile comes between the choice and the stop.
func TestDisplace_aCallThatComesMeanwhile(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	w.clock.Step(displaceAfter)
	if !w.Displace() {
		t.Fatal("no sandbox goes")
	}
	w.call()
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if w.creates() != 1 || len(w.sandboxes()) != 1 {
		t.Errorf("%d creates, %d sandboxes", w.creates(), len(w.sandboxes()))
	}
}

// share puts a broker between the reconciler and the daemon.
func (w *world) share() *capacity.Broker {
	broker := capacity.New(w.provider, nil)
	w.Provider = broker
	w.Runner = runner.New(broker, guest.AgentProgram{Bytes: []byte("agent"), Digest: agentDigest})
	broker.SetDisplacer(w.Reconciler)
	return broker
}

func TestCapacity_showsThatItWaits(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.reconcile()
	broker := w.share()
	stranger := w.provider.Adopt("stranger", "node")
	w.provider.Limit(1)
	w.reconcile()
	known := w.memory.get(objectUID)
	eventually(t, "the boot to wait", known.waits)
	w.reconcile()
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.CapacityReason)
	version := w.get().ResourceVersion
	w.look()
	w.reconcile()
	if got := w.get().ResourceVersion; got != version {
		t.Error("looking again wrote")
	}
	if err := broker.Stop(t.Context(), stranger); err != nil {
		t.Fatal(err)
	}
	// The clock of the test stands still: a list from before the boot would count as
	// one from after it.
	w.wait()
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
}

func TestCapacity_whoWaitsIsCancelled(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.reconcile()
	w.share()
	w.provider.Limit(0)
	w.reconcile()
	eventually(t, "the boot to wait", w.memory.get(objectUID).waits)
	w.edit(suspended)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SuspendedReason)
}

func TestCapacity_rollsWithoutRoom(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(3)))
	w.settle()
	w.share()
	w.provider.Limit(3)
	w.edit(withOtherImage)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.images(); got["other"] != 3 || len(got) != 1 {
		t.Errorf("in the end there are %v", got)
	}
}

func TestCapacity_classes(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.reconcile()
	known := &runtimeMemory{runtime: w.tableRuntime(), shortSince: w.clock.Now()}
	w.memory.put(objectUID, known)
	sc := w.newScope(w.get())
	plain := w.ticket(sc, &instance{})
	if plain.Class() != capacity.Boot || !plain.Displace || plain.Wait != placeTimeout || !plain.Since.Equal(known.shortSince) {
		t.Errorf("nobody waits, and the ticket is %+v", plain)
	}
	w.Table.Want(w.tableRuntime())
	if plain.Class() != capacity.Wake {
		t.Error("a call waits, and the class is still Boot")
	}
	if surge := w.ticket(sc, &instance{surge: true}); surge.Displace || surge.Wait != 0 {
		t.Errorf("for a roll the ticket is %+v", surge)
	}
	keptByTheBus(sc.obj)
	if kept := w.ticket(sc, &instance{}); !kept.Displace || kept.Wait != 0 {
		t.Errorf("for a kept runtime the ticket is %+v", kept)
	}
}

// TestCapacity_repeatedBootsKeepTheirPlace has two boots fail one after another.
func TestCapacity_repeatedBootsKeepTheirPlace(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.reconcile()
	full := sandbox.NewCapacityError("full")
	w.provider.FailNext(fake.Create, full, full)
	begin := w.clock.Now()
	for range 2 {
		w.reconcile()
		w.wait()
		w.reconcile()
		w.clock.Step(time.Second)
	}
	if since := w.memory.get(types.UID(objectUID)).shortSince; !since.Equal(begin) {
		t.Errorf("it counts as waiting since %s, want %s", since, begin)
	}
	w.settle()
	if ready := conditions.Find(w.get(), "Ready"); ready.Status != metav1.ConditionTrue || !w.memory.get(objectUID).shortSince.IsZero() {
		t.Errorf("in the end it is %+v", ready)
	}
}
