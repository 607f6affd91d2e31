package shim

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// errStillThere: the function is still on its way off the bus.
var errStillThere = errors.New("still being removed")

// awaitGone waits until the API server has none of the functions any more,
// which means that they are off the bus: their finalizer holds them until then.
func (s *Shim) awaitGone(ctx context.Context, limit time.Duration, functions ...*v1alpha1.SandboxFunction) error {
	bounded, cancel := withTimeout(ctx, s.Clock, limit)
	defer cancel()
	for _, f := range functions {
		err := wait.PollUntilContextCancel(bounded, pollInterval, true, func(ctx context.Context) (bool, error) {
			return s.isAway(ctx, f)
		})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case bounded.Err() != nil:
			return errStillThere
		default:
			return err
		}
	}
	return nil
}

// isAway asks the API server itself only once the cache has lost the function,
// since it is asked every few milliseconds.
func (s *Shim) isAway(ctx context.Context, f *v1alpha1.SandboxFunction) (bool, error) {
	for _, reader := range []client.Reader{s.Client, s.Reader} {
		found := &v1alpha1.SandboxFunction{}
		err := reader.Get(ctx, client.ObjectKeyFromObject(f), found)
		switch {
		case err == nil && found.UID == f.UID:
			return false, nil
		case client.IgnoreNotFound(err) != nil:
			return false, err
		}
		// A later function of the same name is another one.
	}
	return true, nil
}

// deleteSource removes the ConfigMap of a function that is gone, at once and
// also where no garbage collector runs.
func (s *Shim) deleteSource(f *v1alpha1.SandboxFunction) {
	if ref := f.Spec.Source.ConfigMapKeyRef; ref != nil {
		s.deleteLater(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: ref.Name}})
	}
}
