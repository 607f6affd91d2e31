// Package slim keeps out of the manager's cache what takes much memory and is
// read seldom, above all the sources of functions.
package slim

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/guest"
)

// digestAnnotation stands for an inline source in the cache. It is never written
// to the API server.
const digestAnnotation = "internal.sandbox.iii.dev/source-digest"

// Transform is a cache.TransformFunc for all kinds. It takes out managed fields,
// kubectl's copy of the object, and inline sources, in place of which their
// digest stays.
//
// What is cached so must not be written back whole. Merge patches, as of status
// and finalizers, are safe: what is missing is missing on both sides and so not
// in the patch. An Update of such a function is refused by the API server, since
// it has no source.
func Transform(in any) (any, error) {
	obj, ok := in.(client.Object)
	if !ok {
		return in, nil
	}
	obj.SetManagedFields(nil)
	annotate(obj, corev1.LastAppliedConfigAnnotation, "")
	if fn, ok := obj.(*sandboxv1alpha1.SandboxFunction); ok {
		slimFunction(fn)
	}
	return obj, nil
}

func slimFunction(fn *sandboxv1alpha1.SandboxFunction) {
	digest, inline := InlineDigest(fn)
	if fn.Spec.Source.Inline == nil && inline {
		return // It has been here before.
	}
	annotate(fn, digestAnnotation, digest)
	fn.Spec.Source.Inline = nil
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
	digest = fn.Annotations[digestAnnotation]
	return digest, digest != ""
}

// annotate sets an annotation, or takes it out if the value is empty.
func annotate(obj client.Object, key, value string) {
	annotations := obj.GetAnnotations()
	if value == "" {
		delete(annotations, key)
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}
