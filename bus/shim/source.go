package shim

import (
	"context"
	"errors"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// sourceKeys are the keys of a source in its ConfigMap
// (contracts/code-runner.md §2).
var sourceKeys = map[v1alpha1.Language]string{
	v1alpha1.LanguageNode:   "handler.mjs",
	v1alpha1.LanguagePython: "handler.py",
}

// createFunction stores the source in the function, or in a ConfigMap before
// the function: so no function ever waits for its source, and all that an
// interruption can leave behind is a ConfigMap, which the next registration of
// the id removes.
func (s *Shim) createFunction(ctx context.Context, f *v1alpha1.SandboxFunction, source string) (*v1alpha1.SandboxFunction, error) {
	if len(source) <= v1alpha1.MaxInlineSourceBytes {
		f.Spec.Source.Inline = &source
		return f, s.create(ctx, f)
	}
	stored, err := s.storeSource(ctx, f, source)
	if err != nil {
		return nil, err
	}
	f.Spec.Source.ConfigMapKeyRef = &v1alpha1.KeyReference{Name: stored.Name, Key: sourceKeys[languageOf(f)]}
	if err := s.create(ctx, f); err != nil {
		s.deleteLater(stored)
		return nil, err
	}
	if err := s.own(ctx, f, stored); err != nil {
		s.withdraw(f)
		return nil, err
	}
	return f, nil
}

func (s *Shim) create(ctx context.Context, f *v1alpha1.SandboxFunction) error {
	err := s.Client.Create(ctx, f)
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return alreadyRegistered(f.Spec.FunctionID, named(f))
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		s.withdrawUnknown(f)
	}
	return apiError("creating the function", err)
}

// storeSource gives the ConfigMap a name of its own, so that one of an earlier
// function of the same id, which may still be on its way out, never stands in
// the way.
func (s *Shim) storeSource(ctx context.Context, f *v1alpha1.SandboxFunction, source string) (*corev1.ConfigMap, error) {
	if err := s.removeLeftovers(ctx, f); err != nil {
		return nil, err
	}
	stored := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   f.Namespace,
			Name:        f.Name + "-" + uuid.NewString()[:8],
			Labels:      f.Labels,
			Annotations: map[string]string{v1alpha1.FunctionIDAnnotation: f.Spec.FunctionID},
		},
		Data:      map[string]string{sourceKeys[languageOf(f)]: source},
		Immutable: ptr.To(true),
	}
	if err := s.Client.Create(ctx, stored); err != nil {
		s.deleteLater(stored)
		return nil, apiError("storing the source", err)
	}
	return stored, nil
}

// removeLeftovers deletes sources that interrupted registrations of the id left
// behind, but not the one that the function has. The caller holds a lock on the
// id.
func (s *Shim) removeLeftovers(ctx context.Context, f *v1alpha1.SandboxFunction) error {
	var stored metav1.PartialObjectMetadataList
	stored.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := s.Reader.List(ctx, &stored, client.InNamespace(f.Namespace), client.MatchingLabels(f.Labels)); err != nil {
		return apiError("looking for earlier sources", err)
	}
	var errs []error
	for i := range stored.Items {
		item := &stored.Items[i]
		used := f.Spec.Source.ConfigMapKeyRef != nil && f.Spec.Source.ConfigMapKeyRef.Name == item.Name
		if !used && item.Annotations[v1alpha1.FunctionIDAnnotation] == f.Spec.FunctionID {
			errs = append(errs, s.deleteNow(ctx, item))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return apiError("removing an earlier source", err)
	}
	return nil
}

// own lets the ConfigMap go with its function, however that is deleted.
func (s *Shim) own(ctx context.Context, f *v1alpha1.SandboxFunction, stored *corev1.ConfigMap) error {
	base := client.MergeFrom(stored.DeepCopy())
	stored.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(f, v1alpha1.GroupVersion.WithKind("SandboxFunction")),
	}
	if err := s.Client.Patch(ctx, stored, base); err != nil {
		return apiError("handing the source to its function", err)
	}
	return nil
}
