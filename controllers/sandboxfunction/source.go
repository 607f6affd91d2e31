package sandboxfunction

import (
	"context"
	"fmt"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
	"github.com/sandbox-operator/sandbox-operator/guest"
)

// resolveSource reads the code and names it by its digest.
func (r *Reconciler) resolveSource(ctx context.Context, sc *scope) (bool, error) {
	field := "spec.source.inline"
	if inline := sc.obj.Spec.Source.Inline; inline != nil {
		sc.source = *inline
	} else {
		ref := sc.obj.Spec.Source.ConfigMapKeyRef
		field = "spec.source.configMapKeyRef"
		source, err := environment.ConfigMapKey(ctx, r.Reader, sc.obj.Namespace, ref)
		if environment.IsNotFound(err) {
			return sc.conclude(conditions.Waiting, sandboxv1alpha1.ReferenceNotFoundReason, field+": "+err.Error())
		}
		if err != nil {
			return false, err
		}
		sc.source = source
	}
	if size := len(sc.source); size == 0 || size > sandboxv1alpha1.MaxSourceBytes {
		return sc.conclude(conditions.Stalled, sandboxv1alpha1.SandboxFunctionSourceTooLargeReason,
			fmt.Sprintf("%s: the source has %d bytes; it must have 1 to %d", field, size, sandboxv1alpha1.MaxSourceBytes))
	}
	sc.digest = guest.SourceDigest([]byte(sc.source))
	return false, nil
}
