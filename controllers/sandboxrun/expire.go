package sandboxrun

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// expire ends the reconciliation of a finished run, and deletes it when its time
// has come.
func (r *Reconciler) expire(ctx context.Context, sc *scope) (bool, error) {
	if !sc.obj.DeletionTimestamp.IsZero() {
		// Somebody's finalizer may hold it for long, but its program ends now.
		r.attempts.Cancel(sc.id(), errDeleted)
		return true, nil
	}
	if !sc.obj.IsFinished() {
		return false, nil
	}
	r.attempts.Take(sc.id())
	left, ends := timeLeft(sc.obj, r.Clock.Now())
	switch {
	case !ends:
		return true, nil
	case left > 0:
		sc.requeue = left
		return true, nil
	}
	err := r.Client.Delete(ctx, sc.obj, client.Preconditions{UID: &sc.obj.UID})
	return true, client.IgnoreNotFound(err)
}

// timeLeft is how long a finished run stays, and whether it ever goes by itself.
func timeLeft(run *sandboxv1alpha1.SandboxRun, now time.Time) (left time.Duration, ends bool) {
	if run.Spec.TTLSecondsAfterFinished == nil || run.Status.CompletionTime == nil {
		return 0, false
	}
	ttl := time.Duration(*run.Spec.TTLSecondsAfterFinished) * time.Second
	return run.Status.CompletionTime.Add(ttl).Sub(now), true
}

// interrupt ends a run that the status calls running while nobody executes it:
// the operator restarted under it. It may have had effects, so it is not
// repeated.
func (r *Reconciler) interrupt(_ context.Context, sc *scope) (bool, error) {
	if sc.obj.Status.Phase != sandboxv1alpha1.RunRunning {
		return false, nil
	}
	r.Fleet.Poke()
	return r.finish(sc, result{failure: &failure{
		reason:  sandboxv1alpha1.SandboxRunInterruptedReason,
		message: "the operator restarted while the program ran; it may have had effects and is not repeated",
	}})
}

// cancel ends a run before it began. One that runs is cancelled through its
// attempt.
func (r *Reconciler) cancel(_ context.Context, sc *scope) (bool, error) {
	if !sc.obj.Spec.Cancel {
		return false, nil
	}
	return r.finish(sc, result{failure: cancelled()})
}

func cancelled() *failure {
	return &failure{reason: sandboxv1alpha1.SandboxRunCancelledReason, message: "the run was cancelled"}
}

// collect waits for the attempt and takes its result over. The result stays in
// the table until the cache shows a finished object, so that an old cache never
// makes a finished run look interrupted.
func (r *Reconciler) collect(_ context.Context, sc *scope) (bool, error) {
	state, ok := r.attempts.Get(sc.id())
	switch {
	case !ok:
		return false, nil
	case !state.Done:
		if sc.obj.Spec.Cancel {
			r.attempts.Cancel(sc.id(), errCancelled)
		}
		return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxRunRunningReason, "the program runs")
	case state.Err != nil:
		return r.finish(sc, result{failure: &failure{
			reason:  sandboxv1alpha1.SandboxRunSandboxFailedReason,
			message: "the attempt ended with an error of the operator",
		}})
	}
	return r.finish(sc, state.Result)
}
