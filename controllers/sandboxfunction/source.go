package sandboxfunction

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/slim"
	"github.com/sandbox-operator/sandbox-operator/guest"
)

// resolveSource names the code by its digest. The code itself is read again when
// it is planted: those of many functions that wait for that would fill the
// memory.
func (r *Reconciler) resolveSource(ctx context.Context, sc *scope) (bool, error) {
	digest, inline := slim.InlineDigest(sc.obj)
	if inline {
		sc.digest = digest
		return false, nil
	}
	const field = "spec.source.configMapKeyRef"
	source, err := environment.ConfigMapKey(ctx, r.Reader, sc.obj.Namespace, sc.obj.Spec.Source.ConfigMapKeyRef)
	if environment.IsNotFound(err) {
		return sc.conclude(conditions.Waiting, sandboxv1alpha1.ReferenceNotFoundReason, field+": "+err.Error())
	}
	if err != nil {
		return false, err
	}
	if size := len(source); size == 0 || size > sandboxv1alpha1.MaxSourceBytes {
		return sc.conclude(conditions.Stalled, sandboxv1alpha1.SandboxFunctionSourceTooLargeReason,
			fmt.Sprintf("%s: the source has %d bytes; it must have 1 to %d", field, size, sandboxv1alpha1.MaxSourceBytes))
	}
	sc.digest = guest.SourceDigest([]byte(source))
	return false, nil
}

// errNotWanted ends a plant whose function went, or got another source, while it
// waited.
var errNotWanted = errors.New("the function of this source has gone, or has another one now")

// readSource reads the code that has a digest, past the cache.
func (r *Reconciler) readSource(ctx context.Context, key types.NamespacedName, uid types.UID, digest string) (string, error) {
	var fn sandboxv1alpha1.SandboxFunction
	err := r.Reader.Get(ctx, key, &fn)
	if apierrors.IsNotFound(err) || err == nil && fn.UID != uid {
		return "", errNotWanted
	}
	if err != nil {
		return "", fmt.Errorf("reading the source: %w", err)
	}
	var source string
	if inline := fn.Spec.Source.Inline; inline != nil {
		source = *inline
	} else if source, err = environment.ConfigMapKey(ctx, r.Reader, fn.Namespace, fn.Spec.Source.ConfigMapKeyRef); err != nil {
		return "", fmt.Errorf("reading the source: %w", err)
	}
	if guest.SourceDigest([]byte(source)) != digest {
		return "", errNotWanted
	}
	return source, nil
}
