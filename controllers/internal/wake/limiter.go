package wake

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstRetry and lastRetry bound the wait after errors of one object. The usual
	// last wait, a quarter of an hour, is for what only a person can mend. What fails
	// here is the API server above all, and nobody wakes the objects when it is back.
	firstRetry = 5 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// NewRateLimiter doubles the wait of an object from one error to the next, from
// 5 ms to 10 s.
func NewRateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}
