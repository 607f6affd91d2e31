package sandboxruntime

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func requestOf(key types.NamespacedName) ctrl.Request { return ctrl.Request{NamespacedName: key} }

// readerOf is an API server with other objects than the cache.
func readerOf(scheme *runtime.Scheme, objects ...client.Object) client.Reader {
	return fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func suspended(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Suspend = true }

// TestReconcile_settledWritesNothing brings a runtime into every state in which
// it may stay and looks at it again.
func TestReconcile_settledWritesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		obj    *sandboxv1alpha1.SandboxRuntime
		bring  func(w *world)
		status metav1.ConditionStatus
		reason string
	}{
		"ready":          {newRuntime(withReplicas(3)), func(*world) {}, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason},
		"suspended":      {newRuntime(suspended), func(*world) {}, metav1.ConditionTrue, sandboxv1alpha1.SuspendedReason},
		"scaled to zero": {newRuntime(withReplicas(0)), func(*world) {}, metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeScaledToZeroReason},
		"idle": {newRuntime(), func(w *world) { w.clock.Step(idleTime) },
			metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeIdleReason},
		"waiting for a Secret": {newRuntime(withSecret), func(*world) {},
			metav1.ConditionFalse, sandboxv1alpha1.ReferenceNotFoundReason},
		"stalled": {newRuntime(), func(w *world) {
			w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Image = "bad" })
			w.provider.NextCreateErr(sandbox.NewRejectedError("S100", "no"))
		}, metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimeImageRejectedReason},
		"without room": {newRuntime(), func(w *world) {
			w.edit(withReplicas(2))
			w.provider.NextCreateErr(sandbox.NewCapacityError("full"))
		}, metav1.ConditionFalse, sandboxv1alpha1.CapacityReason},
		"displaced": {newRuntime(), func(w *world) {
			w.clock.Step(displaceAfter)
			w.Displace()
		}, metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeIdleReason},
		"with a setup that fails": {newRuntime(fitted), func(w *world) {
			w.provider.OnExec(agentThatRuns(w.t, func(string) wire.Run { return wire.Run{ExitCode: 1} }))
			if err := w.api.Create(w.t.Context(), theSecret("hunter2")); err != nil {
				w.t.Fatal(err)
			}
		}, metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimePackagesFailedReason},
		"in a crash loop": {newRuntime(), func(w *world) {
			w.crash(time.Second)
			w.crash(time.Second)
		}, metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimeCrashLoopReason},
		"with a package that is none": {newRuntime(func(obj *sandboxv1alpha1.SandboxRuntime) {
			obj.Spec.Packages = []string{"./here"}
		}), func(*world) {}, metav1.ConditionFalse, sandboxv1alpha1.InvalidSpecReason},
		"rolled over": {newRuntime(withReplicas(2)), func(w *world) { w.edit(withOtherImage) },
			metav1.ConditionTrue, sandboxv1alpha1.ReadyReason},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.obj)
			w.settle()
			tc.bring(w)
			w.settle()
			w.expectReady(tc.status, tc.reason)
			version := w.get().ResourceVersion
			for range 3 {
				w.look()
				w.reconcile()
				w.wait()
			}
			if got := w.get().ResourceVersion; got != version {
				t.Errorf("looking again wrote: %s became %s", version, got)
			}
		})
	}
}

func TestReconcile_daemonAway(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	w.daemonAway()
	if result := w.reconcile(); result.RequeueAfter == 0 {
		t.Error("nobody looks again")
	}
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.DaemonUnavailableReason)
	version := w.get().ResourceVersion
	if w.reconcile(); w.get().ResourceVersion != version {
		t.Error("looking again wrote")
	}
	if got := len(w.Table.Instances(w.tableRuntime())); got != 1 {
		t.Errorf("the table forgot its instance: %d are left", got)
	}
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if w.creates() != 1 {
		t.Error("the sandbox was replaced for nothing")
	}
}

func TestReconcile_startsQuietly(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	version := w.get().ResourceVersion
	w.daemonAway()
	w.restart()
	if result := w.reconcile(); result.RequeueAfter == 0 || w.get().ResourceVersion != version {
		t.Errorf("a list that was not read yet was taken for a daemon that is away: %+v", result)
	}
	w.clock.Step(startGrace)
	w.reconcile()
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.DaemonUnavailableReason)
}

func TestAdopt(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(2)))
	w.settle()
	before := w.get()
	w.restart()
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if diff := cmp.Diff(before.Status, w.get().Status); diff != "" {
		t.Errorf("the new process changed the status (-before +after):\n%s", diff)
	}
	if got := len(w.Table.Instances(w.tableRuntime())); got != 2 || w.creates() != 2 || len(w.sandboxes()) != 2 {
		t.Errorf("%d instances take calls, %d sandboxes were made", got, w.creates())
	}
	if events := w.events(); len(events) != 0 {
		t.Errorf("events: %v", events)
	}
}

func TestAdopt_leavesBootsOfTheFormerProcess(t *testing.T) {
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
	orphan := w.get().Status.Instances[0].Digest
	w.provider.OnExec(agentReplies(t))
	w.restart()
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.get().Status.Instances; len(got) != 1 || got[0].Digest == orphan {
		t.Errorf("the boot of another process was adopted: %+v", got)
	}
	if len(w.sandboxes()) != 2 {
		t.Errorf("%d sandboxes, want the new one and the orphan for the sweep", len(w.sandboxes()))
	}
}

func TestAdopt_noticesWhatWasLostMeanwhile(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	w.provider.Lose(w.sandboxes()[0].ID)
	w.restart()
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.events(); !slices.Equal(got, []string{"SandboxLost"}) || w.creates() != 2 {
		t.Errorf("events %v after %d creates", got, w.creates())
	}
}

func TestAdopt_objectThatIsGone(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	w.restart()
	// The cache still has the object, the API server has another of its name.
	other := newRuntime()
	other.UID = "another-uid"
	scheme := w.api.Scheme()
	w.Reader = readerOf(scheme, other)
	if result := w.reconcile(); !result.IsZero() || len(w.Table.Instances(w.tableRuntime())) != 0 {
		t.Errorf("a former object was adopted: %+v", result)
	}
}

func TestNotice_lostSandboxes(t *testing.T) {
	for name, lose := range map[string]func(w *world, id sandbox.ID){
		"the list lacks it": func(w *world, id sandbox.ID) { w.provider.Lose(id) },
		"a call found it gone": func(w *world, id sandbox.ID) {
			w.provider.Lose(id)
			w.MarkLost(w.tableRuntime(), publish.Instance{Name: "0", ID: id})
		},
		"a call found it dead": func(w *world, id sandbox.ID) {
			w.MarkLost(w.tableRuntime(), publish.Instance{Name: "0", ID: id})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime())
			w.settle()
			lost := w.sandboxes()[0].ID
			w.clock.Step(time.Second)
			lose(w, lost)
			w.settle()
			w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
			left := w.sandboxes()
			if len(left) != 1 || left[0].ID == lost {
				t.Errorf("%d sandboxes; replaced: %t", len(left), left[0].ID != lost)
			}
			if got := w.Table.Instances(w.tableRuntime()); len(got) != 1 || got[0].ID == lost {
				t.Errorf("the table has %d instances", len(got))
			}
			if got := w.events(); !slices.Equal(got, []string{"SandboxLost"}) {
				t.Errorf("events: %v", got)
			}
		})
	}
}

// TestNotice_olderListsProveNothing has a list that was asked for before the
// sandbox was there.
func TestNotice_aTwinDoesNotHideALoss(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	used := w.sandboxes()[0]
	twin := w.provider.Adopt(used.Name, "node")
	w.provider.Lose(used.ID)
	w.settle()
	if got := w.events(); !slices.Equal(got, []string{"SandboxLost"}) || w.creates() != 2 {
		t.Errorf("events %v after %d creates", got, w.creates())
	}
	for _, i := range w.Table.Instances(w.tableRuntime()) {
		if i.ID == twin {
			t.Error("calls go to a sandbox that nobody prepared")
		}
	}
}

func TestNotice_olderListsProveNothing(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.reconcile()
	w.reconcile()
	w.wait()
	w.clock.Step(time.Second)
	w.reconcile()
	w.reconcile()
	if got := w.states(); got != "0:ready" || len(w.events()) != 0 {
		t.Errorf("instances are %s", got)
	}
}

func TestRenew(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(2)))
	w.settle()
	before := len(w.provider.Calls(fake.Touch))
	w.settle()
	w.clock.Step(renewEvery)
	w.settle()
	if got := len(w.provider.Calls(fake.Touch)) - before; got != 2 {
		t.Errorf("%d renewals of two leases", got)
	}
	if renewEvery*2 >= leaseMargin {
		t.Error("one lost renewal ends a lease")
	}
}

func TestEvents_showNoHandles(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	lost := w.sandboxes()[0]
	w.provider.Lose(lost.ID)
	w.clock.Step(time.Second)
	w.look()
	w.reconcile()
	w.wait()
	select {
	case text := <-w.recorder.Events:
		marker, _ := sandbox.ParseMarker(lost.Name)
		if strings.Contains(text, lost.ID.Reveal()) || strings.Contains(text, marker.Nonce) {
			t.Errorf("the event is %q", text)
		}
	default:
		t.Error("no event")
	}
}
