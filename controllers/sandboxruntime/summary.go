package sandboxruntime

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// summarize writes the status from what the steps left.
func (r *Reconciler) summarize(sc *scope, err error) {
	status := &sc.obj.Status
	status.Selector = "sandbox.iii.dev/runtime=" + sc.obj.Name
	if sc.known != nil {
		status.Instances = sc.known.statuses()
		status.Replicas = int32(len(sc.known.instances)) //nolint:gosec // bounded by the API
		status.ReadyReplicas = int32(sc.known.ready())   //nolint:gosec // bounded by the API
	}
	o := r.outcome(sc, err)
	ready := status.ReadyReplicas
	r.condition(sc, sandboxv1alpha1.SandboxRuntimeBootedCondition, int(ready) >= sc.wanted, o)
	r.condition(sc, sandboxv1alpha1.SandboxRuntimeGuestReadyCondition, ready > 0 || sc.wanted == 0, o)
	conditions.Summarize(sc.obj, o)
}

func (r *Reconciler) condition(sc *scope, kind string, good bool, o conditions.Outcome) {
	switch {
	case o.State == conditions.Ready && good:
		conditions.Set(sc.obj, kind, metav1.ConditionTrue, o.Reason, o.Message)
	case o.State == conditions.Progressing:
		conditions.Set(sc.obj, kind, metav1.ConditionUnknown, o.Reason, o.Message)
	default:
		conditions.Set(sc.obj, kind, metav1.ConditionFalse, o.Reason, o.Message)
	}
}

func (r *Reconciler) outcome(sc *scope, err error) conditions.Outcome {
	spec := &sc.obj.Spec
	switch {
	case sc.outcome != nil:
		return *sc.outcome
	case err != nil:
		return conditions.Outcome{State: conditions.Progressing, Reason: sandboxv1alpha1.ProgressingReason,
			Message: "the last attempt failed and is repeated"}
	case sc.known.stopping(), sc.wanted == 0 && len(sc.known.instances) > 0:
		return conditions.Outcome{State: conditions.Progressing, Reason: sandboxv1alpha1.ProgressingReason,
			Message: "sandboxes are being stopped"}
	case spec.Suspend:
		return conditions.Outcome{State: conditions.Ready, Reason: sandboxv1alpha1.SuspendedReason,
			Message: "the runtime is suspended and has no sandbox"}
	case sc.idle:
		return conditions.Outcome{State: conditions.Ready, Reason: sandboxv1alpha1.SandboxRuntimeIdleReason,
			Message: "nobody called and the sandboxes were stopped; the next call boots one"}
	case sc.wanted == 0:
		return conditions.Outcome{State: conditions.Ready, Reason: sandboxv1alpha1.SandboxRuntimeScaledToZeroReason,
			Message: "the runtime is scaled to zero"}
	case sc.known.ready() < sc.wanted && sc.known.waits():
		return conditions.Outcome{State: conditions.Waiting, Reason: sandboxv1alpha1.CapacityReason, Message: messageNoRoom}
	case sc.known.ready() < sc.wanted || sc.known.outdated(sc.templateDigest):
		return conditions.Outcome{State: conditions.Progressing, Reason: sandboxv1alpha1.SandboxRuntimeBootingReason,
			Message: "sandboxes are being made"}
	case len(sc.known.instances) > sc.wanted:
		return conditions.Outcome{State: conditions.Progressing, Reason: sandboxv1alpha1.ProgressingReason,
			Message: "sandboxes are being stopped"}
	default:
		return conditions.Outcome{State: conditions.Ready, Reason: sandboxv1alpha1.ReadyReason,
			Message: "all sandboxes take calls"}
	}
}

func (r *runtimeMemory) stopping() bool {
	for _, i := range r.instances {
		if i.State == sandboxv1alpha1.InstanceStopping {
			return true
		}
	}
	return false
}

func (r *runtimeMemory) outdated(digest string) bool {
	for _, i := range r.instances {
		if i.TemplateDigest != digest {
			return true
		}
	}
	return false
}
