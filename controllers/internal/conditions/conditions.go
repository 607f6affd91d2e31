// Package conditions derives the conditions that kstatus reads (Ready,
// Reconciling, Stalled) from the outcome of a reconciliation.
package conditions

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Object is an object with conditions.
type Object interface {
	client.Object
	GetConditions() []metav1.Condition
	SetConditions([]metav1.Condition)
	GetObservedGeneration() int64
	SetObservedGeneration(int64)
}

// maxMessage bounds a condition's message, in bytes; the API server's own bound
// is larger.
const maxMessage = 1024

// State is where a reconciliation left an object.
type State int

// The states.
const (
	// Progressing: the operator is at work and will come back by itself.
	Progressing State = iota
	// Waiting: something outside must happen first; the operator is woken by it.
	Waiting
	// Stalled: only a change of the spec, or of what stands in its way, can help.
	Stalled
	// Ready: the object is as its spec wants it.
	Ready
)

// Outcome is the result of a reconciliation in the words that users read.
type Outcome struct {
	State State
	// Reason is one of the constants of the API package.
	Reason string
	// Message is stable: no times, ids or counters.
	Message string
}

// Summarize writes Ready, Reconciling and Stalled, and moves the observed
// generation if this generation was handled.
func Summarize(obj Object, o Outcome) {
	// A new object has -1, so that no tool takes it for a ready one. From here on the
	// conditions say where it stands; kstatus would not read them beside a -1.
	if obj.GetObservedGeneration() < 0 {
		obj.SetObservedGeneration(0)
	}
	switch o.State {
	case Ready:
		Set(obj, sandboxv1alpha1.ReadyCondition, metav1.ConditionTrue, o.Reason, o.Message)
		Delete(obj, sandboxv1alpha1.ReconcilingCondition)
		Delete(obj, sandboxv1alpha1.StalledCondition)
		obj.SetObservedGeneration(obj.GetGeneration())
	case Stalled:
		Set(obj, sandboxv1alpha1.ReadyCondition, metav1.ConditionFalse, o.Reason, o.Message)
		Set(obj, sandboxv1alpha1.StalledCondition, metav1.ConditionTrue, o.Reason, o.Message)
		Delete(obj, sandboxv1alpha1.ReconcilingCondition)
		obj.SetObservedGeneration(obj.GetGeneration())
	case Waiting:
		Set(obj, sandboxv1alpha1.ReadyCondition, metav1.ConditionFalse, o.Reason, o.Message)
		Set(obj, sandboxv1alpha1.ReconcilingCondition, metav1.ConditionTrue, o.Reason, o.Message)
		Delete(obj, sandboxv1alpha1.StalledCondition)
	default:
		Set(obj, sandboxv1alpha1.ReadyCondition, metav1.ConditionUnknown, o.Reason, o.Message)
		Set(obj, sandboxv1alpha1.ReconcilingCondition, metav1.ConditionTrue, o.Reason, o.Message)
		Delete(obj, sandboxv1alpha1.StalledCondition)
	}
}

// Set writes one condition for the object's present generation. The transition
// time moves only with the status.
func Set(obj Object, kind string, status metav1.ConditionStatus, reason, message string) {
	list := obj.GetConditions()
	meta.SetStatusCondition(&list, metav1.Condition{
		Type: kind, Status: status, Reason: reason,
		Message: cut(message), ObservedGeneration: obj.GetGeneration(),
	})
	obj.SetConditions(list)
}

// Delete removes one condition.
func Delete(obj Object, kind string) {
	list := obj.GetConditions()
	meta.RemoveStatusCondition(&list, kind)
	obj.SetConditions(list)
}

// IsTrue says whether a condition is true for the object's present generation.
func IsTrue(obj Object, kind string) bool {
	c := meta.FindStatusCondition(obj.GetConditions(), kind)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == obj.GetGeneration()
}

// Find returns a condition, or nil.
func Find(obj Object, kind string) *metav1.Condition {
	return meta.FindStatusCondition(obj.GetConditions(), kind)
}

func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	end := maxMessage - len("…")
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end] + "…"
}
