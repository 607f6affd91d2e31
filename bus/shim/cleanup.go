package shim

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	// deleteAttempts spaces the attempts of a deletion over about 6 s.
	deleteAttempts = wait.Backoff{Steps: 6, Duration: 200 * time.Millisecond, Factor: 2}
	// deleteTimeout bounds each attempt.
	deleteTimeout = 10 * time.Second
)

// deleteLater deletes an object although nobody waits for it any more. If it
// gives up, the run's ttl or the runtime's idle time is the net.
func (s *Shim) deleteLater(obj client.Object) {
	s.background.Go(func() { s.deleteSurely(obj) })
}

// deleteSurely goes on after errors, and after its caller has left.
func (s *Shim) deleteSurely(obj client.Object) {
	ctx := context.Background()
	err := wait.ExponentialBackoff(s.deleteAttempts, func() (bool, error) {
		return s.deleteNow(ctx, obj) == nil, nil
	})
	if err != nil {
		s.Logger.Warn("Deleting an object failed, leaving it to its time to live", "object", klog.KObj(obj))
	}
}

// deleteNow makes one attempt; an object that is gone already is a success, and
// a later one of the same name is left alone.
func (s *Shim) deleteNow(ctx context.Context, obj client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	var options []client.DeleteOption
	if uid := obj.GetUID(); uid != "" {
		options = append(options, client.Preconditions{UID: &uid})
	}
	err := s.Client.Delete(ctx, obj, options...)
	if apierrors.IsNotFound(err) || (apierrors.IsConflict(err) && len(options) > 0) {
		return nil
	}
	return err
}
