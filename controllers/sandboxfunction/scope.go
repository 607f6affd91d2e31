package sandboxfunction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/patch"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// scope is one reconciliation: what was read, and what the steps decided.
type scope struct {
	obj    *sandboxv1alpha1.SandboxFunction
	key    types.NamespacedName
	status *patch.Status
	known  *functionMemory

	digest  string
	runtime publish.Runtime
	// runtimeTrouble is why the runtime has no sandbox, nil if it says nothing.
	runtimeTrouble *conditions.Outcome
	// language of the runtime, and its variables and files, whose Secrets must not show.
	language wire.Language
	env      []sandboxv1alpha1.EnvVar
	files    []sandboxv1alpha1.File

	// runtimeReady and published are set by the steps that got that far.
	runtimeReady, published bool
	outcome                 *conditions.Outcome
	requeue                 time.Duration
	released                bool
}

func (r *Reconciler) newScope(obj *sandboxv1alpha1.SandboxFunction) *scope {
	return &scope{
		obj:    obj,
		key:    client.ObjectKeyFromObject(obj),
		status: patch.NewStatus(r.Client, obj),
		known:  r.memory.get(obj),
	}
}

func (sc *scope) requeueIn(d time.Duration) {
	d = max(d, time.Millisecond)
	if sc.requeue == 0 || d < sc.requeue {
		sc.requeue = d
	}
}

// result is what Reconcile returns: an error is tried again by itself.
func (sc *scope) result(err error) (ctrl.Result, error) {
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: sc.requeue}, nil
}

// conclude ends the reconciliation with what users read; it returns what a step
// returns then.
func (sc *scope) conclude(state conditions.State, reason, message string) (bool, error) {
	sc.outcome = &conditions.Outcome{State: state, Reason: reason, Message: message}
	return true, nil
}
