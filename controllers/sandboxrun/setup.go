package sandboxrun

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/wake"
)

// SetupWithManager registers the reconciler. A run is looked at when its spec
// changes, when it goes, when its attempt has ended, and when its end is written.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("sandboxrun").
		For(&sandboxv1alpha1.SandboxRun{}, builder.WithPredicates(
			predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, ended()),
		)).
		WatchesRawSource(r.waker).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8, RateLimiter: wake.NewRateLimiter()}).
		Complete(r)
	if err != nil {
		return err
	}
	return mgr.Add(closer{r})
}

// ended brings the pass that forgets the attempt of a run and waits for its time
// to go: only then does the cache show its end.
func ended() predicate.Predicate {
	finished := func(obj client.Object) bool { return obj.(*sandboxv1alpha1.SandboxRun).IsFinished() }
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !finished(e.ObjectOld) && finished(e.ObjectNew)
	}}
}

// closer ends the attempts when the manager stops; each stops its sandbox on the
// way out.
type closer struct{ *Reconciler }

const closeTimeout = 45 * time.Second

// Start implements manager.Runnable.
func (c closer) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return c.Close(ctx)
}

// Close ends the attempts and waits for them; a second call does no harm.
func (r *Reconciler) Close(ctx context.Context) error { return r.attempts.Close(ctx) }
