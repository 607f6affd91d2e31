package sandboxfunction

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// remove takes a function that is being deleted off the bus. One that this
// object never put there stays: it belongs to another.
func (r *Reconciler) remove(ctx context.Context, sc *scope) (bool, error) {
	if sc.obj.DeletionTimestamp.IsZero() {
		return false, nil
	}
	if err := r.removeOwn(ctx, sc.obj); err != nil {
		return false, err
	}
	if !r.withdraw(sc.obj.UID, sc.known) {
		return sc.conclude(conditions.Progressing, sandboxv1alpha1.DeletingReason, "the function is being taken off the bus")
	}
	sc.released = true
	return true, nil
}

// errWithdrawn is the cause with which the confirmation of a function ends that
// leaves the bus.
var errWithdrawn = errors.New("the function is taken off the bus")

// withdraw takes the function and its triggers off the bus and its source out of
// the sandboxes, and ends the calls that wait for a slot. It returns at once; doing it again does nothing. It reports
// false while a confirmation is under way that may register the function once
// more: the end of that wakes the reconciler, which then withdraws again.
func (r *Reconciler) withdraw(uid types.UID, known *functionMemory) (done bool) {
	if done = r.leave(uid, known, r.Publisher.Retire); done {
		r.endPaused(known)
	}
	return done
}

// pause is withdraw for a function that is expected back within the deadlines of
// the calls that wait for it, so these go on to wait.
func (r *Reconciler) pause(uid types.UID, known *functionMemory) (done bool) {
	if known.functionID != "" {
		known.paused = known.functionID
	}
	return r.leave(uid, known, r.Publisher.Unpublish)
}

// endPaused ends the calls that waited for a paused function to come back, unless
// another has its id now.
func (r *Reconciler) endPaused(known *functionMemory) {
	if _, bound := r.Table.Binding(known.paused); known.paused != "" && !bound {
		r.Table.End(known.paused)
	}
	known.paused = ""
}

func (r *Reconciler) leave(uid types.UID, known *functionMemory, unpublish func(functionID string)) (done bool) {
	if known.functionID != "" {
		r.leaveBus(known, unpublish)
	}
	r.confirms.Cancel(string(uid), errWithdrawn)
	if r.confirms.Running(string(uid)) {
		return false
	}
	r.confirms.Take(string(uid))
	if known.functionID != "" {
		// The confirmation may have ended between the two looks at it.
		r.leaveBus(known, unpublish)
	}
	known.functionID = ""
	clear(known.triggerIDs)
	r.memory.letGo(uid)
	return true
}

func (r *Reconciler) leaveBus(known *functionMemory, unpublish func(functionID string)) {
	binding, bound := r.Table.Binding(known.functionID)
	for id := range known.triggerIDs {
		r.dropTrigger(id)
	}
	unpublish(known.functionID)
	known.confirmed = nil
	if bound {
		r.unplant(binding.Runtime, binding.SourceDigest)
	}
}

// forgetFormer withdraws functions of this name whose object went without its
// finalizer being honoured. A confirmation that is still under way wakes the name
// at its end, which brings us here again.
func (r *Reconciler) forgetFormer(key types.NamespacedName, present types.UID) {
	for uid, known := range r.memory.others(key, present) {
		if r.withdraw(uid, known) {
			r.forget(uid, known)
		}
	}
}

// forget drops what is known of a function. Plants that still run drop
// themselves.
func (r *Reconciler) forget(uid types.UID, known *functionMemory) {
	r.memory.forget(uid)
	r.releasePrefix(uid)
	for _, operation := range known.plants {
		r.plants.Take(operation)
	}
}

// unplant removes a source that no function uses any more. Its failure is no
// harm: the source goes with the sandbox.
func (r *Reconciler) unplant(runtime publish.Runtime, digest string) {
	if digest == "" || r.Table.IsServed(runtime, digest) {
		return
	}
	for _, instance := range r.Table.Instances(runtime) {
		r.Table.MarkUnplanted(runtime, instance, digest)
		key := "unplant/" + runtime.UID + "/" + instance.Name + "/" + digest
		id := instance.ID
		r.plants.Start(key, func(ctx context.Context) (struct{}, error) {
			ctx, cancel := context.WithTimeout(ctx, plantTimeout)
			defer cancel()
			return struct{}{}, r.Runner.Unplant(ctx, id, digest)
		}, func() { r.plants.Take(key) })
	}
}

// suspend takes a suspended function off the bus.
func (r *Reconciler) suspend(_ context.Context, sc *scope) (bool, error) {
	if !sc.obj.Spec.Suspend {
		return false, nil
	}
	if !r.withdraw(sc.obj.UID, sc.known) {
		return sc.conclude(conditions.Progressing, sandboxv1alpha1.SuspendedReason, "the function is being taken off the bus")
	}
	return sc.conclude(conditions.Ready, sandboxv1alpha1.SuspendedReason, "the function is suspended and not on the bus")
}
