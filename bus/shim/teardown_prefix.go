package shim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// teardownPrefix deletes the bus-made functions of an id prefix and answers
// when they are off the bus. What kubectl made stays. After an error the call
// can be repeated: functions on their way out are counted again.
func (s *Shim) teardownPrefix(ctx context.Context, namespace string) (teardownResponse, error) {
	prefix := strings.TrimSuffix(namespace, separator)
	if err := checkPrefix(prefix); err != nil {
		return teardownResponse{}, err
	}
	functions, err := s.functionsOfPrefix(ctx, prefix)
	if err != nil {
		return teardownResponse{}, err
	}
	canonical := prefix + separator
	if len(functions) == 0 {
		return teardownResponse{}, &callError{code: codeRuntimeNotFound, message: "namespace \"" + canonical +
			"\" has no runtime; register a function there first, or send the runtime_id of a kept runtime"}
	}
	if err := s.removeFunctions(ctx, functions); err != nil {
		return teardownResponse{}, err
	}
	return teardownResponse{Namespace: &canonical, TornDown: true, Unregistered: idsOf(functions)}, nil
}

// functionsOfPrefix lists what the API server has, in the order of
// registration. The label is a hash, so the id is compared too.
func (s *Shim) functionsOfPrefix(ctx context.Context, prefix string) ([]*v1alpha1.SandboxFunction, error) {
	var list v1alpha1.SandboxFunctionList
	labels := client.MatchingLabels(busLabels(v1alpha1.PrefixHashLabel, shortHash(prefix)))
	if err := s.Reader.List(ctx, &list, client.InNamespace(s.Namespace), labels); err != nil {
		return nil, apiError("listing the functions of the namespace", err)
	}
	var functions []*v1alpha1.SandboxFunction
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Spec.FunctionID, prefix+separator) {
			functions = append(functions, &list.Items[i])
		}
	}
	slices.SortStableFunc(functions, byRegistration)
	return functions, nil
}

func byRegistration(a, b *v1alpha1.SandboxFunction) int {
	return cmp.Or(
		cmp.Compare(a.Annotations[registeredAtAnnotation], b.Annotations[registeredAtAnnotation]),
		cmp.Compare(a.Name, b.Name),
	)
}

// removeFunctions goes on after an error, so that as little as possible is left
// for the next attempt.
func (s *Shim) removeFunctions(ctx context.Context, functions []*v1alpha1.SandboxFunction) error {
	var errs []error
	for _, f := range functions {
		errs = append(errs, s.deleteNow(ctx, f))
	}
	if err := errors.Join(errs...); err != nil {
		return engineError("not all functions could be removed, tear the namespace down again: %s", scrub(err.Error()))
	}
	if err := s.awaitGone(ctx, teardownTimeout, functions...); err != nil {
		return engineError("not all functions are off the bus yet, tear the namespace down again: %s", scrub(err.Error()))
	}
	for _, f := range functions {
		s.deleteSource(f)
	}
	return nil
}

func idsOf(functions []*v1alpha1.SandboxFunction) []string {
	ids := make([]string, 0, len(functions))
	for _, f := range functions {
		ids = append(ids, f.Spec.FunctionID)
	}
	return ids
}
