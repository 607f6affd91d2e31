// Package slim keeps out of the manager's cache what takes much memory and is
// read seldom, above all the sources of functions and runs.
package slim

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/guest"
)

// Transform is a cache.TransformFunc for all kinds. It takes out managed fields,
// kubectl's copy of the object, the inline sources of functions, in place of which
// their digest stays, and what run.go takes out of runs.
//
// What is cached so must not be written back whole. Merge patches, as of status
// and finalizers, are safe: what is missing is missing on both sides and so not
// in the patch. An Update of such a function or run is refused by the API server,
// since it has no source.
func Transform(in any) (any, error) {
	obj, ok := in.(client.Object)
	if !ok {
		return in, nil
	}
	obj.SetManagedFields(nil)
	dropAnnotation(obj, corev1.LastAppliedConfigAnnotation)
	share(obj)
	switch obj := obj.(type) {
	case *sandboxv1alpha1.SandboxFunction:
		slimFunction(obj)
	case *sandboxv1alpha1.SandboxRun:
		slimRun(obj)
	}
	return obj, nil
}

// slimFunction puts the digest of the source where objects once had a link to
// themselves: API servers have left that field empty since Kubernetes 1.20. Nothing
// of it is ever written. An annotation would do, if a map for it did not take 340
// bytes of each function.
func slimFunction(fn *sandboxv1alpha1.SandboxFunction) {
	digest, inline := InlineDigest(fn)
	if inline && digest == fn.Status.SourceDigest {
		digest = fn.Status.SourceDigest // One copy is enough.
	}
	fn.SetSelfLink(digest)
	fn.Spec.Source.Inline = nil
	fn.Kind, fn.APIVersion = shared.share(fn.Kind), shared.share(fn.APIVersion)
	fn.Spec.Language, fn.Spec.Handler = shareAs(shared, fn.Spec.Language), shareAs(shared, fn.Spec.Handler)
	fn.Status.RuntimeName = shared.share(fn.Status.RuntimeName)
}

// InlineDigest is the digest of a function's inline source, and whether it has
// one, for objects from the cache and others alike.
func InlineDigest(fn *sandboxv1alpha1.SandboxFunction) (digest string, inline bool) {
	switch source := fn.Spec.Source; {
	case source.Inline != nil:
		return guest.SourceDigest([]byte(*source.Inline)), true
	case source.ConfigMapKeyRef != nil:
		return "", false
	}
	digest = fn.GetSelfLink()
	return digest, digest != ""
}

func dropAnnotation(obj client.Object, key string) {
	annotations := obj.GetAnnotations()
	delete(annotations, key)
	if len(annotations) == 0 {
		obj.SetAnnotations(nil)
	}
}
