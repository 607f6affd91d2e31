package sandboxruntime

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// notice drops instances that the back end no longer lists, and learns from the
// list how many programs the others take.
func (r *Reconciler) notice(_ context.Context, sc *scope) (bool, error) {
	if !sc.snapshot.Available {
		return r.waitForDaemon(sc)
	}
	suspects := r.memory.takeSuspects(sc.obj.UID)
	// By id: another sandbox may have the same marker.
	listed := map[sandbox.ID]fleet.Instance{}
	for _, s := range sc.snapshot.Ours[string(sc.obj.UID)] {
		if !s.Info.Stopped {
			listed[s.Info.ID] = s
		}
	}
	for _, i := range sc.known.list() {
		if i.State == sandboxv1alpha1.InstanceBooting {
			continue
		}
		found, ok := listed[i.id]
		switch {
		case suspects[i.id] && i.State == sandboxv1alpha1.InstanceReady:
			r.warnLost(sc, i.Name)
			r.countCrash(sc, i)
			r.retire(sc, i, true)
		case ok:
			r.observe(sc, i, found.Info)
		case !sc.snapshot.Time.Before(i.since):
			// The list is not older than the sandbox, and lacks it.
			r.lose(sc, i)
		}
	}
	sc.known.daemonWasAway = false
	r.forgiveCrashes(sc)
	return false, nil
}

func (r *Reconciler) observe(sc *scope, i *instance, info sandbox.Info) {
	sc.obj.Status.Isolation = info.Isolation
	if i.State == sandboxv1alpha1.InstanceReady {
		r.Table.SetInstance(sc.runtime, publish.Instance{
			Name: i.Name, ID: i.id, Slots: info.ExecInFlight + info.ExecSlotsFree, Template: i.TemplateDigest,
		})
	}
}

func (r *Reconciler) lose(sc *scope, i *instance) {
	sc.known.remove(i.Name)
	r.Table.RemoveInstance(sc.runtime, i.Name)
	r.stops.Discard(sc.operation(i), errRetired)
	r.boots.Discard(sc.operation(i), errRetired)
	if i.State == sandboxv1alpha1.InstanceReady {
		r.warnLost(sc, i.Name)
		r.countCrash(sc, i)
	}
}

func (r *Reconciler) warnLost(sc *scope, name string) {
	sc.known.lost = true
	r.Metrics.lostOne()
	r.warn(sc.obj, "SandboxLost", "Replace",
		"sandbox "+name+" of this runtime was lost; "+r.fate(sc.obj))
}

func (r *Reconciler) fate(obj *sandboxv1alpha1.SandboxRuntime) string {
	if r.deletesWhenIdle(obj) {
		return "the runtime is deleted, since its files are gone"
	}
	return "it is replaced"
}

// MarkLost says that a call found an instance gone or dead.
func (r *Reconciler) MarkLost(runtime publish.Runtime, lost publish.Instance) {
	r.memory.suspect(types.UID(runtime.UID), lost.ID)
	r.Fleet.Poke()
	r.WakeRuntime(runtime)
}

// WakeRuntime looks at a runtime, before all others if a call waits for a sandbox.
func (r *Reconciler) WakeRuntime(runtime publish.Runtime) {
	key := types.NamespacedName{Namespace: runtime.Namespace, Name: runtime.Name}
	if r.Table.Activity(runtime).Wanted {
		r.waker.WakeFirst(key)
	} else {
		r.waker.Wake(key)
	}
}

// HandleFleet looks at the runtimes that a change of the back end's list
// concerns: all of them when the back end came or went. Otherwise memory names
// them, since every run makes and ends a sandbox and so changes the list.
func (r *Reconciler) HandleFleet(ctx context.Context, change fleet.Change) {
	if change.AvailabilityChanged {
		r.wakeAll(ctx)
		return
	}
	for _, uid := range change.Objects {
		if known := r.memory.get(types.UID(uid)); known != nil {
			r.WakeRuntime(known.runtime)
		}
	}
}

func (r *Reconciler) wakeAll(ctx context.Context) {
	var list sandboxv1alpha1.SandboxRuntimeList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Finding the runtimes that a change of the fleet concerns")
		return
	}
	for i := range list.Items {
		r.waker.Wake(client.ObjectKeyFromObject(&list.Items[i]))
	}
}
