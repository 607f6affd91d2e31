package sandboxfunction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
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

	source  string
	digest  string
	runtime publish.Runtime
	// language of the runtime, and its environment, whose Secrets must not show.
	language wire.Language
	env      []sandboxv1alpha1.EnvVar

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

// conclude ends the reconciliation with what users read; it returns what a step
// returns then.
func (sc *scope) conclude(state conditions.State, reason, message string) (bool, error) {
	sc.outcome = &conditions.Outcome{State: state, Reason: reason, Message: message}
	return true, nil
}
