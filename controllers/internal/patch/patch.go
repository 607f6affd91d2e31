// Package patch writes what a reconciliation changed, and nothing if it changed
// nothing.
package patch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Status remembers an object as it was read, to write its status later.
type Status struct {
	writer client.Client
	base   client.Object
}

// NewStatus takes a copy of the object as the base of the patch.
func NewStatus(writer client.Client, obj client.Object) *Status {
	return &Status{writer: writer, base: obj.DeepCopyObject().(client.Object)}
}

// Write patches the status if it differs from the base. The patch carries the
// resource version: the lists in a status are replaced whole, and a status made
// from a stale read must not win.
func (s *Status) Write(ctx context.Context, obj client.Object) error {
	same, err := equalStatus(s.base, obj)
	if err != nil || same {
		return err
	}
	patch := client.MergeFromWithOptions(s.base, client.MergeFromWithOptimisticLock{})
	return s.writer.Status().Patch(ctx, obj, patch)
}

// conflictDelay gives the cache time to catch up with the write that won.
const conflictDelay = 50 * time.Millisecond

// QuietConflict returns from Reconcile after a write: a conflict means that the
// object was read from a cache that lags behind, and another look, not an error.
func QuietConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	return ctrl.Result{}, err
}

func equalStatus(a, b client.Object) (bool, error) {
	left, err := runtime.DefaultUnstructuredConverter.ToUnstructured(a)
	if err != nil {
		return false, err
	}
	right, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b)
	if err != nil {
		return false, err
	}
	return equality.Semantic.DeepEqual(left["status"], right["status"]), nil
}
