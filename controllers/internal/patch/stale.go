package patch

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staleRetry gives the cache time to show our last write.
const staleRetry = 10 * time.Millisecond

// IsStale says that an object from the cache is older than our last write of it,
// which made the resource version written; empty for none. What is decided on
// such an object may be what it said before that write, and so would not be
// written again.
func IsStale(obj client.Object, written string) bool {
	if written == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), written)
	return err == nil && order < 0
}

// WaitForCache returns from Reconcile to look again once the cache has caught
// up.
func WaitForCache() (ctrl.Result, error) {
	return ctrl.Result{RequeueAfter: staleRetry}, nil
}
