package sandboxruntime

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/patch"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// scope is one reconciliation: what was read, and what the steps decided.
type scope struct {
	obj      *sandboxv1alpha1.SandboxRuntime
	status   *patch.Status
	runtime  publish.Runtime
	known    *runtimeMemory
	snapshot fleet.Snapshot

	// wanted is the number of sandboxes that should exist now.
	wanted int
	// idle is true if wanted is 0 because nobody calls.
	idle bool
	// create is the request of new sandboxes, without a marker.
	create sandbox.CreateRequest
	// fitting is what new sandboxes get before they take calls.
	fitting prepare.Plan
	// templateDigest names the template that create and fitting were made from.
	templateDigest string

	// crashed is true if a crash was counted already.
	crashed bool

	// outcome is set by the step that knows better than the summary.
	outcome *conditions.Outcome
	// started names the instances that become Booting with this write.
	started []string
	// afterWrite starts what the written status announced.
	afterWrite []func()
	// requeue is when to look again without being woken; 0 is never.
	requeue time.Duration
	// released is true once a deleted runtime need not be held any longer.
	released bool
	// quiet is true if there is nothing to say, and so nothing to write.
	quiet bool
}

func (r *Reconciler) newScope(obj *sandboxv1alpha1.SandboxRuntime) *scope {
	return &scope{
		obj:      obj,
		status:   patch.NewStatus(r.Client, obj),
		runtime:  publish.Runtime{Namespace: obj.Namespace, Name: obj.Name, UID: string(obj.UID)},
		known:    r.memory.get(obj.UID),
		snapshot: r.Fleet.Snapshot(),
	}
}

// requeueIn asks for another look no later than after d.
func (sc *scope) requeueIn(d time.Duration) {
	d = max(d, time.Millisecond)
	if sc.requeue == 0 || d < sc.requeue {
		sc.requeue = d
	}
}

func (sc *scope) conclude(state conditions.State, reason, message string) {
	sc.outcome = &conditions.Outcome{State: state, Reason: reason, Message: message}
}

// trigger names what a failed boot was tried for. When it changes, so may the
// failure, and the next boot need not wait.
func (sc *scope) trigger() string {
	request := sc.obj.Annotations[sandboxv1alpha1.ReconcileRequestAnnotation]
	return sc.templateDigest + "/" + strconv.FormatInt(sc.obj.Generation, 10) + "/" + request
}

// operation is the key of an instance's operations. It names the attempt, since
// a later sandbox may have the same name while an operation on this one is still
// under way.
func (sc *scope) operation(i *instance) string { return operationKey(sc.obj.UID, i) }

func operationKey(uid types.UID, i *instance) string { return string(uid) + "/" + i.Digest }
