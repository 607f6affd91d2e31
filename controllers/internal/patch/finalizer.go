package patch

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// AddFinalizer writes a finalizer. The lock keeps it from undoing what another
// does to the list at the same time.
func AddFinalizer(ctx context.Context, writer client.Client, obj client.Object, name string) error {
	return changeFinalizers(ctx, writer, obj, name, controllerutil.AddFinalizer)
}

// RemoveFinalizer takes a finalizer away; one that is not there is no error.
func RemoveFinalizer(ctx context.Context, writer client.Client, obj client.Object, name string) error {
	return changeFinalizers(ctx, writer, obj, name, controllerutil.RemoveFinalizer)
}

func changeFinalizers(
	ctx context.Context, writer client.Client, obj client.Object, name string, change func(client.Object, string) bool,
) error {
	base := obj.DeepCopyObject().(client.Object)
	if !change(obj, name) {
		return nil
	}
	return writer.Patch(ctx, obj, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}
