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
	if !r.withdraw(sc.known) {
		return sc.conclude(conditions.Progressing, sandboxv1alpha1.DeletingReason, "the function is being taken off the bus")
	}
	sc.released = true
	return true, nil
}

// errWithdrawn is the cause with which the confirmation of a function ends that
// leaves the bus.
var errWithdrawn = errors.New("the function is taken off the bus")

// withdraw takes the function and its triggers off the bus and its source out of
// the sandboxes, and ends the calls that wait for a slot. It returns at once; doing
// it again does nothing. It reports false while a confirmation is under way that
// may register the function once more: the end of that wakes the reconciler, which
// then withdraws again.
func (r *Reconciler) withdraw(known *functionMemory) (done bool) {
	if done = r.leave(known, r.Publisher.Retire, r.unplant); done {
		r.endPaused(known)
	}
	return done
}

// pause is withdraw for a function that is expected back within the deadlines of
// the calls that wait for it, so these go on to wait, and its source stays where it
// is: to plant it once more takes the API server and the time of the first calls.
func (r *Reconciler) pause(known *functionMemory) (done bool) {
	if b, bound := r.Table.Binding(known.functionID); bound && known.functionID != "" {
		known.paused = &b
	}
	return r.leave(known, r.Publisher.Unpublish, func(publish.Runtime, string) {})
}

// endPaused ends the calls that waited for a paused function to come back, unless
// another has its id now.
func (r *Reconciler) endPaused(known *functionMemory) {
	if known.paused == nil {
		return
	}
	if _, bound := r.Table.Binding(known.paused.FunctionID); !bound {
		r.Table.End(known.paused.FunctionID)
	}
	r.unplant(known.paused.Runtime, known.paused.SourceDigest)
	known.paused = nil
}

func (r *Reconciler) leave(
	known *functionMemory, unpublish func(functionID string), release func(runtime publish.Runtime, digest string),
) (done bool) {
	uid := string(known.uid)
	if known.functionID != "" {
		r.leaveBus(known, unpublish, release)
	}
	r.confirms.Cancel(uid, errWithdrawn)
	if r.confirms.Running(uid) {
		return false
	}
	r.confirms.Take(uid)
	if known.functionID != "" {
		// The confirmation may have ended between the two looks at it.
		r.leaveBus(known, unpublish, release)
	}
	known.functionID = ""
	clear(known.triggerIDs)
	r.memory.letGo(known)
	return true
}

func (r *Reconciler) leaveBus(
	known *functionMemory, unpublish func(functionID string), release func(runtime publish.Runtime, digest string),
) {
	binding, bound := r.Table.Binding(known.functionID)
	for id := range known.triggerIDs {
		r.dropTrigger(id)
	}
	unpublish(known.functionID)
	known.confirmed = nil
	if bound {
		release(binding.Runtime, binding.SourceDigest)
	}
}

// forgetFormer withdraws functions of this name whose object went without its
// finalizer being honoured. A confirmation that is still under way wakes the name
// at its end, which brings us here again.
func (r *Reconciler) forgetFormer(key types.NamespacedName, present types.UID) {
	for _, known := range r.memory.others(key, present) {
		if r.withdraw(known) {
			r.forget(known)
		}
	}
}

// forget drops what is known of a function. Plants that still run drop
// themselves.
func (r *Reconciler) forget(known *functionMemory) {
	r.memory.forget(known)
	r.releasePrefix(known)
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
	if !r.withdraw(sc.known) {
		return sc.conclude(conditions.Progressing, sandboxv1alpha1.SuspendedReason, "the function is being taken off the bus")
	}
	return sc.conclude(conditions.Ready, sandboxv1alpha1.SuspendedReason, "the function is suspended and not on the bus")
}
