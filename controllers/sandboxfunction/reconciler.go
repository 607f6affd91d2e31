// Package sandboxfunction makes SandboxFunctions answer on the iii bus: it finds
// or makes the runtime, plants the source, registers the function with its
// triggers, and believes only what the engine confirms.
package sandboxfunction

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/operations"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/patch"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/wake"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
)

// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxfunctions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxfunctions/status,verbs=patch
// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxfunctions/finalizers,verbs=update
// +kubebuilder:rbac:groups=sandbox.iii.dev,resources=sandboxruntimes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options are what a Reconciler works with; all fields are required.
type Options struct {
	Client client.Client
	// Reader reads past the cache.
	Reader    client.Reader
	Runner    *runner.Runner
	Table     *publish.Table
	Publisher *publish.Publisher
	Recorder  events.EventRecorder
	Clock     clock.WithTicker
	// WorkerName is the operator's name on the bus; function ids under it are
	// reserved.
	WorkerName string
	// DefaultTimeout bounds calls of functions that name no timeout.
	DefaultTimeout time.Duration
	// AllowSharedPrefixes lets several namespaces use one id prefix.
	AllowSharedPrefixes bool
	// DaemonAnswers says whether the sandbox daemon could be reached just now.
	DaemonAnswers func() bool
	// Lost is told of a sandbox that a plant found gone or dead. It must not block.
	Lost func(publish.Runtime, publish.Instance)
}

// Reconciler reconciles SandboxFunctions.
type Reconciler struct {
	Options
	memory   *memory
	gates    *gates
	aheads   *aheads
	plants   *operations.Table[struct{}]
	confirms *operations.Table[confirmation]
	// confirming lets a few confirmations at a time ask the engine.
	confirming *semaphore.Weighted
	waker      *wake.Source
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{
		Options:    o,
		memory:     newMemory(),
		gates:      newGates(o.Table.Awaited),
		aheads:     newAheads(),
		plants:     operations.NewTable[struct{}](),
		confirms:   operations.NewTable[confirmation](),
		confirming: semaphore.NewWeighted(confirmsAtOnce),
		waker:      wake.NewSource(),
	}
}

// step is one part of a reconciliation. It changes the scope; the exit writes.
// A step that returns done ends the reconciliation.
type step func(ctx context.Context, sc *scope) (done bool, err error)

// Reconcile brings one SandboxFunction on the bus, or takes it off.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var obj sandboxv1alpha1.SandboxFunction
	if err := client.IgnoreNotFound(r.Client.Get(ctx, req.NamespacedName, &obj)); err != nil {
		return ctrl.Result{}, err
	}
	r.forgetFormer(req.NamespacedName, obj.UID)
	if obj.UID == "" {
		return ctrl.Result{}, nil
	}
	if obj.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(&obj, sandboxv1alpha1.FunctionFinalizer) {
		// The first write of all: what is made before it could be left behind by a
		// fast delete.
		if err := patch.AddFinalizer(ctx, r.Client, &obj, sandboxv1alpha1.FunctionFinalizer); err != nil {
			return patch.QuietConflict(err)
		}
	}
	sc := r.newScope(&obj)
	if patch.IsStale(&obj, sc.known.written) {
		return patch.WaitForCache()
	}
	err := r.run(ctx, sc)
	return r.exit(ctx, sc, err)
}

func (r *Reconciler) run(ctx context.Context, sc *scope) error {
	steps := []step{
		r.remove, r.claimPrefix, r.suspend, r.claim, r.compileSchemas, r.resolveSource, r.ensureRuntime, r.plant,
		r.publish, r.bindTriggers,
	}
	for _, s := range steps {
		if done, err := s(ctx, sc); done || err != nil {
			return err
		}
	}
	return nil
}

// exit derives the conditions and writes the status if it changed.
func (r *Reconciler) exit(ctx context.Context, sc *scope, err error) (ctrl.Result, error) {
	if sc.released {
		return patch.QuietConflict(client.IgnoreNotFound(r.removeFinalizer(ctx, sc)))
	}
	o := r.outcome(sc, err)
	if r.untold(sc, o) {
		return sc.result(err)
	}
	r.summarize(sc, o)
	if writeErr := sc.status.Write(ctx, sc.obj); writeErr != nil {
		return patch.QuietConflict(client.IgnoreNotFound(writeErr))
	}
	sc.known.written = sc.obj.ResourceVersion
	r.announce(sc)
	return sc.result(err)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, sc *scope) error {
	err := patch.RemoveFinalizer(ctx, r.Client, sc.obj, sandboxv1alpha1.FunctionFinalizer)
	if err == nil {
		r.forget(sc.known)
	}
	return err
}
