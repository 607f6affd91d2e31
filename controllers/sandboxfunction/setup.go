package sandboxfunction

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/changed"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/wake"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// SetupWithManager registers the reconciler. A function is looked at when its
// spec or deletion changes, when its runtime or the ConfigMap of its source
// changes, when another function of the same id changes, and when an operation,
// the bus or a new sandbox wakes it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("sandboxfunction").
		For(&sandboxv1alpha1.SandboxFunction{}, builder.WithPredicates(changed.ByOthers())).
		Watches(&sandboxv1alpha1.SandboxFunction{}, handler.EnqueueRequestsFromMapFunc(r.rivals),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&sandboxv1alpha1.SandboxFunction{}, handler.EnqueueRequestsFromMapFunc(r.waitersForPrefix),
			builder.WithPredicates(gone())).
		Watches(&sandboxv1alpha1.SandboxRuntime{}, handler.EnqueueRequestsFromMapFunc(r.functionsOfRuntime),
			builder.WithPredicates(servingChanged())).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.functionsOfConfigMap)).
		WatchesRawSource(r.waker).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: wake.NewRateLimiter()}).
		Complete(r)
	if err != nil {
		return err
	}
	return mgr.Add(closer{r})
}

// servingChanged leaves out what functions do not look at in their runtime, above
// all the count of its functions: each new one would wake all the others.
func servingChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*sandboxv1alpha1.SandboxRuntime), e.ObjectNew.(*sandboxv1alpha1.SandboxRuntime)
		return before.UID != after.UID || before.Generation != after.Generation ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			!maps.Equal(before.Labels, after.Labels) ||
			!slices.Equal(before.Status.Conditions, after.Status.Conditions)
	}}
}

// gone leaves nothing but deletions.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// rivals are the functions of the same id: one may take over when another goes.
func (r *Reconciler) rivals(ctx context.Context, obj client.Object) []reconcile.Request {
	id := obj.(*sandboxv1alpha1.SandboxFunction).Spec.FunctionID
	return r.find(ctx, client.MatchingFields{index.FunctionByID: id})
}

func (r *Reconciler) functionsOfRuntime(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.find(ctx, client.InNamespace(obj.GetNamespace()), client.MatchingFields{index.FunctionByRuntime: obj.GetName()})
}

func (r *Reconciler) functionsOfConfigMap(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.find(ctx, client.InNamespace(obj.GetNamespace()), client.MatchingFields{index.FunctionByConfigMap: obj.GetName()})
}

func (r *Reconciler) find(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	list := r.list(ctx, opts...)
	requests := make([]reconcile.Request, 0, len(list))
	for i := range list {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list[i])})
	}
	return requests
}

// list returns functions, which are the cache's own: a copy of every one would cost
// far more than what is read of them.
func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []sandboxv1alpha1.SandboxFunction {
	var list sandboxv1alpha1.SandboxFunctionList
	if err := r.Client.List(ctx, &list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Finding the functions that a change concerns")
		return nil
	}
	return list.Items
}

// WakeRuntime looks at all functions of a runtime, which has a new sandbox: first at
// those for which calls wait.
func (r *Reconciler) WakeRuntime(ctx context.Context, runtime publish.Runtime) {
	awaited := r.Table.Awaited(runtime)
	list := r.list(ctx, client.InNamespace(runtime.Namespace), client.MatchingFields{index.FunctionByRuntime: runtime.Name})
	for i := range list {
		if key := client.ObjectKeyFromObject(&list[i]); awaited[list[i].Spec.FunctionID] {
			r.waker.WakeFirst(key)
		} else {
			r.waker.Wake(key)
		}
	}
}

// HandleBusEvent looks at the functions that an event of the bus concerns: all
// of them after a connection came or went.
func (r *Reconciler) HandleBusEvent(ctx context.Context, e bus.Event) {
	switch e.Kind {
	case bus.Connected, bus.Disconnected:
		r.wake(r.find(ctx))
	case bus.FunctionRejected:
		r.wake(r.find(ctx, client.MatchingFields{index.FunctionByID: e.FunctionID}))
	case bus.TriggerRejected:
		if key, ok := r.memory.refuse(e.TriggerID, refusalText(e.Err)); ok {
			r.waker.Wake(key)
		}
	}
}

// HandleFleet looks at all functions after the daemon came or went: what its
// sandboxes hold is served again at once, also while the API server takes no word of
// it.
func (r *Reconciler) HandleFleet(ctx context.Context, change fleet.Change) {
	if change.AvailabilityChanged {
		r.wake(r.find(ctx))
	}
}

func refusalText(err error) string {
	var remote *bus.RemoteError
	if errors.As(err, &remote) {
		return cutMessage(redact.Text(remote.Message, nil))
	}
	return "no reason was given"
}

func (r *Reconciler) wake(requests []reconcile.Request) {
	for _, request := range requests {
		r.waker.Wake(request.NamespacedName)
	}
}

// closer ends the operations when the manager stops.
type closer struct{ *Reconciler }

const closeTimeout = 30 * time.Second

// Start implements manager.Runnable.
func (c closer) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return c.Close(ctx)
}

// Close ends the operations and waits for them; a second call does no harm.
func (r *Reconciler) Close(ctx context.Context) error {
	return errors.Join(r.plants.Close(ctx), r.confirms.Close(ctx))
}
