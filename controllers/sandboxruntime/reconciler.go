// Package sandboxruntime makes the sandboxes of SandboxRuntimes exist: it boots,
// adopts, replaces, idles and stops them, and tells the routing table which of
// them take calls.
package sandboxruntime

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/operations"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/patch"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/wake"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxruntimes,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxruntimes/status,verbs=patch
// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxfunctions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Fleet is the back end's list as it was last read.
type Fleet interface {
	Snapshot() fleet.Snapshot
	// Poke asks for a fresh list soon.
	Poke()
}

// Options are what a Reconciler works with. All fields are required unless they
// say otherwise.
type Options struct {
	Client client.Client
	// Reader reads past the cache.
	Reader   client.Reader
	Provider sandbox.Provider
	Runner   *runner.Runner
	Fleet    Fleet
	Table    *publish.Table
	Recorder events.EventRecorder
	Clock    clock.WithTicker
	// OperatorID is the UID of this installation, part of every marker.
	OperatorID string
	// GuestBus is the guests' way to the bus.
	GuestBus *guestaccess.Access
	// IdleTimeout is the idle time of runtimes that name none.
	IdleTimeout time.Duration
	// DigestKey is a secret that digests of templates are keyed with, so that they
	// tell nothing of the values of Secrets. It must be the same after a restart.
	DigestKey []byte
	// DisplaceAfter is how long a sandbox must have been unused to go for another;
	// 0 stands for 5 s.
	DisplaceAfter time.Duration
	// Metrics counts boots and losses; nil counts nothing.
	Metrics *Metrics
}

// Reconciler reconciles SandboxRuntimes.
type Reconciler struct {
	Options
	memory *memory
	boots  *operations.Table[runner.Booted]
	stops  *operations.Table[struct{}]
	waker  *wake.Source
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{
		Options: o,
		memory:  newMemory(),
		boots:   operations.NewTable[runner.Booted](),
		stops:   operations.NewTable[struct{}](),
		waker:   wake.NewSource(),
	}
}

// step is one part of a reconciliation. It changes the scope; the exit writes.
// A step that returns done ends the reconciliation.
type step func(ctx context.Context, sc *scope) (done bool, err error)

// Reconcile brings the sandboxes of one SandboxRuntime to what its spec says.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var obj sandboxv1alpha1.SandboxRuntime
	if err := r.Client.Get(ctx, req.NamespacedName, &obj); err != nil {
		if apierrors.IsNotFound(err) {
			r.dropOthers(req.NamespacedName, "")
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if obj.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(&obj, sandboxv1alpha1.RuntimeFinalizer) {
		// The first write of all: what is made before it could be left behind by a
		// fast delete.
		return patch.QuietConflict(patch.AddFinalizer(ctx, r.Client, &obj, sandboxv1alpha1.RuntimeFinalizer))
	}
	sc := r.newScope(&obj)
	if sc.known != nil && patch.IsStale(&obj, sc.known.written) {
		return patch.WaitForCache()
	}
	err := r.run(ctx, sc)
	return r.exit(ctx, sc, err)
}

func (r *Reconciler) run(ctx context.Context, sc *scope) error {
	steps := []step{
		r.adopt, r.collect, r.notice, r.giveUp, r.remove, r.renew, r.removeKept, r.removeImplicit,
		r.want, r.template, r.keep, r.act, r.answerFirst,
	}
	for _, s := range steps {
		if done, err := s(ctx, sc); done || err != nil {
			return err
		}
	}
	return nil
}

// exit derives the conditions, writes the status if it changed, and then starts
// what may only start once the status names it.
func (r *Reconciler) exit(ctx context.Context, sc *scope, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return patch.QuietConflict(err)
	}
	if sc.quiet {
		return ctrl.Result{RequeueAfter: sc.requeue}, err
	}
	if sc.released {
		return patch.QuietConflict(client.IgnoreNotFound(r.removeFinalizer(ctx, sc)))
	}
	r.summarize(sc, err)
	if writeErr := sc.status.Write(ctx, sc.obj); writeErr != nil {
		r.abandon(sc)
		return patch.QuietConflict(client.IgnoreNotFound(writeErr))
	}
	if sc.known != nil {
		sc.known.written = sc.obj.ResourceVersion
	}
	for _, start := range sc.afterWrite {
		start()
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: sc.requeue}, nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, sc *scope) error {
	err := patch.RemoveFinalizer(ctx, r.Client, sc.obj, sandboxv1alpha1.RuntimeFinalizer)
	if err == nil {
		r.memory.forget(sc.obj.UID)
		r.drop(sc.runtime, sc.known)
	}
	return err
}

// dropOthers forgets runtimes that had this name and went without a word, as
// when somebody took their finalizer away. The sweep destroys their sandboxes.
func (r *Reconciler) dropOthers(key types.NamespacedName, uid types.UID) {
	for _, known := range r.memory.takeOthers(key, uid) {
		r.drop(known.runtime, known)
	}
}

// drop ends what goes on for a runtime that has gone.
func (r *Reconciler) drop(runtime publish.Runtime, known *runtimeMemory) {
	r.Table.Drop(runtime)
	if known == nil {
		return
	}
	for _, i := range known.instances {
		r.boots.Discard(operationKey(types.UID(runtime.UID), i), errRetired)
		r.stops.Discard(operationKey(types.UID(runtime.UID), i), errRetired)
	}
}

// warn records a change for the worse, once.
func (r *Reconciler) warn(obj *sandboxv1alpha1.SandboxRuntime, reason, action, message string) {
	r.Recorder.Eventf(obj, nil, corev1.EventTypeWarning, reason, action, "%s", message)
}
