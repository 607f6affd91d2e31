package sandboxfunction

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
)

// ownRuntime is the runtime that spec.runtime describes. It goes with its
// function.
func ownRuntime(fn *sandboxv1alpha1.SandboxFunction, name string) *sandboxv1alpha1.SandboxRuntime {
	runtime := &sandboxv1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fn.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(fn, sandboxv1alpha1.GroupVersion.WithKind("SandboxFunction")),
			},
		},
	}
	align(fn, runtime)
	stampRegistration(fn, runtime)
	return runtime
}

// align makes a runtime what its function says. Suspend, and replicas that the
// function leaves open, belong to whoever operates or scales the runtime.
func align(fn *sandboxv1alpha1.SandboxFunction, runtime *sandboxv1alpha1.SandboxRuntime) {
	template := fn.Spec.Runtime.DeepCopy()
	if template.Replicas == nil {
		template.Replicas = runtime.Spec.Replicas
	}
	runtime.Spec = sandboxv1alpha1.SandboxRuntimeSpec{
		Language: template.Language, GuestSpec: template.GuestSpec, RuntimeScale: template.RuntimeScale,
		Suspend: runtime.Spec.Suspend,
	}
	runtime.Labels = with(runtime.Labels, map[string]string{
		sandboxv1alpha1.OwnLabel:        "true",
		sandboxv1alpha1.PrefixHashLabel: index.Hash(index.Prefix(fn.Spec.FunctionID)),
	})
	runtime.Annotations = with(runtime.Annotations, map[string]string{
		sandboxv1alpha1.FunctionIDAnnotation: fn.Spec.FunctionID,
	})
}

func with(present, wanted map[string]string) map[string]string {
	merged := maps.Clone(present)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, wanted)
	return merged
}

// keepOwn takes back what others changed in the function's own runtime, and
// brings a changed template to it.
func (r *Reconciler) keepOwn(ctx context.Context, sc *scope, runtime *sandboxv1alpha1.SandboxRuntime) (bool, error) {
	if !metav1.IsControlledBy(runtime, sc.obj) {
		return r.notOurs(ctx, sc, runtime)
	}
	wanted := runtime.DeepCopy()
	align(sc.obj, wanted)
	same, err := equal(runtime, wanted)
	if err != nil || same || !runtime.DeletionTimestamp.IsZero() {
		return false, err
	}
	err = r.Client.Patch(ctx, wanted, client.MergeFromWithOptions(runtime.DeepCopy(), client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		sc.requeueIn(ownRetry)
		return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason,
			fmt.Sprintf("SandboxRuntime %s is being changed", runtime.Name))
	case apierrors.IsInvalid(err):
		return sc.conclude(conditions.Stalled, sandboxv1alpha1.InvalidSpecReason,
			fmt.Sprintf("spec.runtime: SandboxRuntime %s cannot be made so: %v", runtime.Name, err))
	case err != nil:
		return false, fmt.Errorf("changing SandboxRuntime %s: %w", runtime.Name, err)
	}
	wanted.DeepCopyInto(runtime)
	return false, nil
}

// ownRetry gives the cache time to show what another wrote to the runtime.
const ownRetry = 100 * time.Millisecond

// equal compares as the API server stores, for which an empty list can differ
// from none, and 1024Mi cannot from 1Gi.
func equal(a, b *sandboxv1alpha1.SandboxRuntime) (bool, error) {
	left, err := json.Marshal(a.Spec)
	if err != nil {
		return false, err
	}
	right, err := json.Marshal(b.Spec)
	if err != nil {
		return false, err
	}
	return bytes.Equal(left, right) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations), nil
}

// notOurs waits for the runtime of a former function of this name to go, and
// leaves any other alone.
func (r *Reconciler) notOurs(ctx context.Context, sc *scope, runtime *sandboxv1alpha1.SandboxRuntime) (bool, error) {
	r.withdraw(sc.known)
	owner := metav1.GetControllerOf(runtime)
	if owner == nil || owner.Kind != "SandboxFunction" || owner.Name != sc.obj.Name {
		return sc.conclude(conditions.Stalled, sandboxv1alpha1.InvalidSpecReason, fmt.Sprintf(
			"spec.runtime: SandboxRuntime %s exists and was not made for this function; delete it or give the function another name", runtime.Name))
	}
	if err := r.deleteRuntime(ctx, runtime); err != nil {
		return false, err
	}
	return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason,
		fmt.Sprintf("SandboxRuntime %s of a former function of this name is being removed", runtime.Name))
}

// removeOwn deletes the function's own runtime, without waiting: where nobody
// collects what lost its owner it would stay.
func (r *Reconciler) removeOwn(ctx context.Context, fn *sandboxv1alpha1.SandboxFunction) error {
	if fn.Spec.Runtime == nil {
		return nil
	}
	var runtime sandboxv1alpha1.SandboxRuntime
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: index.RuntimeName(fn)}, &runtime)
	if err != nil || !metav1.IsControlledBy(&runtime, fn) {
		return client.IgnoreNotFound(err)
	}
	return r.deleteRuntime(ctx, &runtime)
}

func (r *Reconciler) deleteRuntime(ctx context.Context, runtime *sandboxv1alpha1.SandboxRuntime) error {
	if !runtime.DeletionTimestamp.IsZero() {
		return nil
	}
	err := r.Client.Delete(ctx, runtime, client.Preconditions{UID: &runtime.UID})
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("deleting SandboxRuntime %s: %w", runtime.Name, err)
	}
	return nil
}
