package sandboxruntime

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/changed"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/wake"
)

// SetupWithManager registers the reconciler. A runtime is looked at when its
// spec or deletion changes, when a function joins or leaves it, when a ConfigMap
// of its environment changes, and when an operation, a call or the fleet wakes
// it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("sandboxruntime").
		For(&sandboxv1alpha1.SandboxRuntime{}, builder.WithPredicates(changed.ByOthers())).
		Watches(&sandboxv1alpha1.SandboxFunction{}, handler.EnqueueRequestsFromMapFunc(runtimeOfFunction),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.runtimesOfConfigMap)).
		WatchesRawSource(r.waker).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: wake.NewRateLimiter()}).
		Complete(r)
	if err != nil {
		return err
	}
	return mgr.Add(closer{r})
}

func runtimeOfFunction(_ context.Context, obj client.Object) []reconcile.Request {
	fn := obj.(*sandboxv1alpha1.SandboxFunction)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: fn.Namespace, Name: index.RuntimeName(fn),
	}}}
}

func (r *Reconciler) runtimesOfConfigMap(ctx context.Context, obj client.Object) []reconcile.Request {
	var list sandboxv1alpha1.SandboxRuntimeList
	err := r.Client.List(ctx, &list, client.InNamespace(obj.GetNamespace()),
		client.MatchingFields{index.RuntimeByConfigMap: obj.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Finding the runtimes that use a ConfigMap")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// closer ends the operations when the manager stops. Sandboxes stay: the next
// leader adopts them.
type closer struct{ *Reconciler }

// Start implements manager.Runnable.
func (c closer) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return c.Close(ctx)
}

// Close ends the operations and waits for them; a second call does no harm.
func (r *Reconciler) Close(ctx context.Context) error {
	return errors.Join(r.boots.Close(ctx), r.stops.Close(ctx))
}
