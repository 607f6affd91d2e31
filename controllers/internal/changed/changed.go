// Package changed has the predicates that decide which changes of an object its
// own controller looks at.
package changed

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// ByOthers lets through what the controller did not write into the status
// itself: the spec, annotations (a request to look at once is one), the deletion,
// and finalizers. The controller's first write adds its finalizer, which moves no
// generation, and the pass after it has to come.
//
// It also lets through what Ready says when that changes. Most of these changes are
// the controller's own, and the pass finds nothing to do; but a request of a leader
// that was paused may arrive after another has taken over, or one whose answer was
// lost after it was given up, and what it says has to be put right.
func ByOthers() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, deletion(), finalizers(), readiness(),
	)
}

func readiness() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(conditions.Object)
		after, isToo := e.ObjectNew.(conditions.Object)
		return ok && isToo && verdict(before) != verdict(after)
	}}
}

// verdict is what Ready says, without its words.
func verdict(obj conditions.Object) [2]string {
	ready := conditions.Find(obj, v1alpha1.ReadyCondition)
	if ready == nil {
		return [2]string{}
	}
	return [2]string{string(ready.Status), ready.Reason}
}

func deletion() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool { return !obj.GetDeletionTimestamp().IsZero() })
}

func finalizers() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
	}}
}
