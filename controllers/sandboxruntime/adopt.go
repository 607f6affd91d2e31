package sandboxruntime

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// adopt runs when this process sees a runtime for the first time. Sandboxes of a
// former process whose nonce the status knows are taken over if they were ready;
// one that was still booting is left to the sweep, since nobody knows how far it
// came.
func (r *Reconciler) adopt(ctx context.Context, sc *scope) (bool, error) {
	if sc.known != nil {
		return false, nil
	}
	if !sc.snapshot.Available {
		return r.waitForDaemon(sc)
	}
	// The cache may be older than the last write of the former leader.
	var fresh sandboxv1alpha1.SandboxRuntime
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(sc.obj), &fresh); err != nil || fresh.UID != sc.obj.UID {
		sc.quiet = client.IgnoreNotFound(err) == nil
		return true, client.IgnoreNotFound(err)
	}
	sc.known = &runtimeMemory{runtime: sc.runtime, verified: wasVerified(&fresh)}
	for _, status := range fresh.Status.Instances {
		if found := match(sc.snapshot, string(sc.obj.UID), status); found != nil {
			sc.known.instances = append(sc.known.instances, r.takeOver(sc, status, *found))
		} else if status.State == sandboxv1alpha1.InstanceReady {
			r.warnLost(sc, status.Name)
		}
	}
	r.dropOthers(client.ObjectKeyFromObject(sc.obj), sc.obj.UID)
	r.memory.put(sc.obj.UID, sc.known)
	return false, nil
}

// wasVerified says that a former process had a ready sandbox of this runtime.
func wasVerified(obj *sandboxv1alpha1.SandboxRuntime) bool {
	ready := conditions.Find(obj, sandboxv1alpha1.ReadyCondition)
	return obj.Status.Isolation != "" ||
		ready != nil && ready.Reason == sandboxv1alpha1.SandboxRuntimeIdleReason ||
		slices.ContainsFunc(obj.Status.Instances, func(i sandboxv1alpha1.InstanceStatus) bool {
			return i.State == sandboxv1alpha1.InstanceReady
		})
}

func (r *Reconciler) takeOver(sc *scope, status sandboxv1alpha1.InstanceStatus, found fleet.Instance) *instance {
	r.Table.SetInstance(sc.runtime, publish.Instance{
		Name: status.Name, ID: found.Info.ID, Slots: found.Info.ExecInFlight + found.Info.ExecSlotsFree,
		Template: status.TemplateDigest,
	})
	sc.obj.Status.Isolation = found.Info.Isolation
	return &instance{InstanceStatus: status, id: found.Info.ID, nonce: found.Marker.Nonce, since: r.Clock.Now()}
}

// match finds the sandbox of a ready instance in the back end's list.
func match(snapshot fleet.Snapshot, uid string, status sandboxv1alpha1.InstanceStatus) *fleet.Instance {
	if status.State != sandboxv1alpha1.InstanceReady {
		return nil
	}
	for _, s := range snapshot.Ours[uid] {
		if !s.Info.Stopped && nonceDigest(s.Marker.Nonce) == status.Digest {
			return &s
		}
	}
	return nil
}

// startGrace is how long after its start the operator takes a missing list for
// one that has not been read yet. Without it every restart would say of every
// runtime that the daemon is away, and take the functions off the bus.
const startGrace = 2 * time.Second

// waitForDaemon keeps what is known and lets the fleet's next change wake us. A
// daemon that comes back may be another one, so a failed boot is worth another
// try then.
func (r *Reconciler) waitForDaemon(sc *scope) (bool, error) {
	if !sc.obj.DeletionTimestamp.IsZero() {
		r.awaitCleanup(sc, "the sandbox daemon does not answer; the sandboxes are stopped when it does")
		return true, nil
	}
	if sc.known != nil {
		sc.known.failure, sc.known.daemonWasAway = nil, true
	} else if r.Clock.Now().Sub(r.memory.firstLook(r.Clock.Now())) < startGrace {
		sc.quiet = true
		sc.requeueIn(startGrace)
		return true, nil
	}
	sc.conclude(conditions.Waiting, sandboxv1alpha1.DaemonUnavailableReason,
		"the sandbox daemon does not answer on the bus; the runtime goes on when it does")
	sc.requeueIn(safetyNet)
	return true, nil
}
