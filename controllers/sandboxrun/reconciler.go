// Package sandboxrun executes SandboxRuns, each at most once, and hands their
// whole results to bus callers.
package sandboxrun

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxruns,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxruns/status,verbs=patch
// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxruntimes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Fleet is the back end's list as it was last read.
type Fleet interface {
	Snapshot() fleet.Snapshot
	Poke()
}

// Options are what a Reconciler works with. All fields are required
// unless they say otherwise.
type Options struct {
	Client client.Client
	// Reader reads past the cache.
	Reader   client.Reader
	Provider sandbox.Provider
	Runner   *runner.Runner
	Fleet    Fleet
	Table    *publish.Table
	Results  *Results
	Recorder events.EventRecorder
	Clock    clock.WithTicker
	// OperatorID is the UID of this installation, part of every marker.
	OperatorID string
	// GuestBus is the guests' way to the bus.
	GuestBus *guestaccess.Access
	// WorkerName begins the names of guest workers.
	WorkerName string
	// DefaultTimeout bounds programs that name no timeout.
	DefaultTimeout time.Duration
	// Metrics counts attempts; nil counts nothing.
	Metrics *Metrics
}

// Reconciler reconciles SandboxRuns.
type Reconciler struct {
	Options
	attempts *operations.Table[result]
	seen     *seenRuns
	waker    *wake.Source
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{
		Options: o, attempts: operations.NewTable[result](), seen: newSeenRuns(), waker: wake.NewSource(),
	}
}

// HandleFleet looks at the runs that wait for the back end, when it came or
// went.
func (r *Reconciler) HandleFleet(ctx context.Context, change fleet.Change) {
	if !change.AvailabilityChanged {
		return
	}
	var list sandboxv1alpha1.SandboxRunList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Finding the runs that wait for the sandbox daemon")
		return
	}
	for i := range list.Items {
		if !list.Items[i].IsFinished() {
			r.waker.Wake(client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
}

// step is one part of a reconciliation. It changes the scope; the exit writes.
// A step that returns done ends the reconciliation.
type step func(ctx context.Context, sc *scope) (done bool, err error)

// Reconcile brings one SandboxRun a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var obj sandboxv1alpha1.SandboxRun
	err := r.Client.Get(ctx, req.NamespacedName, &obj)
	if apierrors.IsNotFound(err) {
		r.vanish(req.NamespacedName, "")
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	// An object of the same name may have replaced the one we knew.
	r.vanish(req.NamespacedName, obj.UID)
	sc := r.newScope(&obj)
	err = r.run(ctx, sc)
	return r.exit(ctx, sc, err)
}

func (r *Reconciler) run(ctx context.Context, sc *scope) error {
	for _, s := range []step{r.expire, r.collect, r.interrupt, r.cancel, r.prepare, r.start} {
		if done, err := s(ctx, sc); done || err != nil {
			return err
		}
	}
	return nil
}

// exit derives the conditions, writes the status if it changed, and then starts
// the attempt that the status announces.
func (r *Reconciler) exit(ctx context.Context, sc *scope, err error) (ctrl.Result, error) {
	r.summarize(sc, err)
	if writeErr := sc.status.Write(ctx, sc.obj); writeErr != nil {
		return patch.QuietConflict(client.IgnoreNotFound(writeErr))
	}
	if sc.afterWrite != nil {
		sc.afterWrite()
	}
	if sc.failed && !sc.fromBus() {
		// A bus caller gets the same as its answer.
		r.Recorder.Eventf(sc.obj, nil, corev1.EventTypeWarning, sc.outcome.Reason, "Run", "%s", sc.outcome.Message)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: sc.requeue}, nil
}

// errDeleted is the cause with which the attempt of a deleted run ends.
var errDeleted = errors.New("the run was deleted")

// vanish ends the attempt of an object that is gone, unless it is the one with
// this UID.
func (r *Reconciler) vanish(key types.NamespacedName, present types.UID) {
	gone := r.seen.replace(key, present, r.Clock.Now())
	if gone == "" {
		return
	}
	r.attempts.Cancel(string(gone), errDeleted)
	r.attempts.Take(string(gone))
	r.Results.drop(gone)
}
