package sandboxruntime

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
)

// maxCleanup bounds how long a deletion waits for the daemon. Past it the object
// goes, and the sweep destroys what the daemon still has.
const maxCleanup = 60 * time.Second

// remove stops all sandboxes of a runtime that is being deleted, once they are
// drained.
func (r *Reconciler) remove(_ context.Context, sc *scope) (bool, error) {
	if sc.obj.DeletionTimestamp.IsZero() {
		return false, nil
	}
	r.Table.Close(sc.runtime)
	now := r.endsPrograms(sc)
	for _, i := range sc.known.list() {
		r.retire(sc, i, now)
	}
	switch {
	case len(sc.known.instances) == 0:
		sc.released = true
	case !now && sc.known.drains(r.Clock.Now()):
		sc.conclude(conditions.Progressing, sandboxv1alpha1.DeletingReason, "programs in the sandboxes go on to their end")
	default:
		r.awaitCleanup(sc, "the sandboxes are being stopped")
	}
	return true, nil
}

// awaitCleanup holds a runtime that is being deleted for no longer than
// maxCleanup from the end of its last program on.
func (r *Reconciler) awaitCleanup(sc *scope, message string) {
	waited := r.deletedFor(sc)
	if sc.known != nil && !sc.known.drained.IsZero() {
		waited = r.Clock.Since(sc.known.drained)
	}
	if waited > maxCleanup {
		sc.released = true
		r.Metrics.postponedOne()
		r.warn(sc.obj, "CleanupPostponed", "Release",
			"the sandboxes could not be stopped in time; the operator destroys them once the sandbox daemon lets it")
		return
	}
	sc.conclude(conditions.Progressing, sandboxv1alpha1.DeletingReason, message)
	sc.requeueIn(maxCleanup - waited + time.Second)
}

// removeKept deletes a runtime that a bus caller keeps once its sandbox has gone:
// its caller counts on the files, and a new sandbox would have none.
func (r *Reconciler) removeKept(ctx context.Context, sc *scope) (bool, error) {
	if !sc.known.lost || !r.deletesWhenIdle(sc.obj) {
		return false, nil
	}
	err := r.Client.Delete(ctx, sc.obj, client.Preconditions{UID: &sc.obj.UID})
	sc.conclude(conditions.Progressing, sandboxv1alpha1.DeletingReason, "the kept sandbox was lost with its files")
	return true, client.IgnoreNotFound(err)
}

// removeImplicit deletes a runtime that exists only for functions once the last
// of them, and of their calls, has gone.
func (r *Reconciler) removeImplicit(ctx context.Context, sc *scope) (bool, error) {
	var functions sandboxv1alpha1.SandboxFunctionList
	// They are only counted, each time that one comes or goes.
	err := r.Client.List(ctx, &functions, client.InNamespace(sc.obj.Namespace),
		client.MatchingFields{index.FunctionByRuntime: sc.obj.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, err
	}
	sc.obj.Status.Functions = int32(len(functions.Items)) //nolint:gosec // bounded by what the API server stores
	if sc.obj.Labels[sandboxv1alpha1.ImplicitLabel] == "" || len(functions.Items) > 0 {
		sc.known.unusedSince = time.Time{}
		return false, nil
	}
	if r.inUse(sc) {
		return false, nil
	}
	// A function that was made since is not in the cache yet; its own
	// reconciliation makes the runtime anew.
	err = r.Client.Delete(ctx, sc.obj, client.Preconditions{UID: &sc.obj.UID, ResourceVersion: &sc.obj.ResourceVersion})
	sc.conclude(conditions.Progressing, sandboxv1alpha1.DeletingReason, "no function uses this runtime any more")
	return true, client.IgnoreNotFound(err)
}
