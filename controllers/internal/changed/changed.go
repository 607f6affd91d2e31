// Package changed has the predicates that decide which changes of an object its
// own controller looks at.
package changed

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// ByOthers lets through what the controller did not write into the status
// itself: the spec, annotations (a request to look at once is one), the deletion,
// and finalizers. The controller's first write adds its finalizer, which moves no
// generation, and the pass after it has to come.
func ByOthers() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, deletion(), finalizers(),
	)
}

func deletion() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool { return !obj.GetDeletionTimestamp().IsZero() })
}

func finalizers() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
	}}
}
