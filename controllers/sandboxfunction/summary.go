package sandboxfunction

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// summarize writes the conditions from how far the steps came.
func (r *Reconciler) summarize(sc *scope, o conditions.Outcome) {
	set := func(kind string, good bool) {
		switch {
		case good:
			conditions.Set(sc.obj, kind, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason, "")
		case o.State == conditions.Progressing:
			conditions.Set(sc.obj, kind, metav1.ConditionUnknown, o.Reason, o.Message)
		default:
			conditions.Set(sc.obj, kind, metav1.ConditionFalse, o.Reason, o.Message)
		}
	}
	set(sandboxv1alpha1.SandboxFunctionRuntimeReadyCondition, sc.runtimeReady)
	serves := sc.published || r.stillServes(sc)
	set(sandboxv1alpha1.SandboxFunctionPublishedCondition, serves)
	if !serves {
		// What a former session had bound says nothing of this one.
		sc.obj.Status.Triggers = nil
	}
	if len(sc.obj.Spec.Triggers) == 0 {
		conditions.Delete(sc.obj, sandboxv1alpha1.SandboxFunctionTriggersBoundCondition)
	} else {
		set(sandboxv1alpha1.SandboxFunctionTriggersBoundCondition, sc.published && o.State == conditions.Ready)
	}
	conditions.Summarize(sc.obj, o)
}

// stillServes says that the engine confirmed this function in this session and
// nothing has taken it back: a new source that does not load leaves the former
// one at work.
func (r *Reconciler) stillServes(sc *scope) bool {
	c := sc.known.confirmed
	return sc.known.functionID != "" && c != nil && c.owner.Ours && r.Publisher.Connected()
}

func (r *Reconciler) outcome(sc *scope, err error) conditions.Outcome {
	switch {
	case sc.outcome != nil:
		return *sc.outcome
	case err != nil:
		return conditions.Outcome{State: conditions.Progressing, Reason: sandboxv1alpha1.ProgressingReason,
			Message: "the last attempt failed and is repeated"}
	default:
		return conditions.Outcome{State: conditions.Ready, Reason: sandboxv1alpha1.ReadyReason,
			Message: "the function answers on the bus"}
	}
}

// announce records an event when a function comes to rest in another way than
// before: what it passes on the way there, such as planting, is no news.
func (r *Reconciler) announce(sc *scope) {
	ready := conditions.Find(sc.obj, sandboxv1alpha1.ReadyCondition)
	stalled := conditions.IsTrue(sc.obj, sandboxv1alpha1.StalledCondition)
	if ready.Status != metav1.ConditionTrue && !stalled {
		return
	}
	news := announcement{reason: ready.Reason, message: ready.Message}
	if sc.known.announced == news {
		return
	}
	sc.known.announced = news
	kind := corev1.EventTypeNormal
	if stalled {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(sc.obj, nil, kind, news.reason, "Publish", "%s", news.message)
}

// announcedBefore is what a former process announced, as the status tells.
func announcedBefore(obj *sandboxv1alpha1.SandboxFunction) announcement {
	ready := conditions.Find(obj, sandboxv1alpha1.ReadyCondition)
	if ready == nil {
		return announcement{}
	}
	return announcement{reason: ready.Reason, message: ready.Message}
}
