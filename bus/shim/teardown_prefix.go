package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// teardownPrefix deletes the bus-made functions of an id prefix and answers
// when they are off the bus and their calls in flight have ended
// (contracts/code-runner.md §4.3). What kubectl made stays, unless force asks for it.
// After an error the call can be repeated: functions on their way out are
// counted again.
func (s *Shim) teardownPrefix(ctx context.Context, namespace string, force bool) (teardownResponse, error) {
	prefix := strings.TrimSuffix(namespace, separator)
	if err := checkPrefix(prefix); err != nil {
		return teardownResponse{}, err
	}
	if force && !s.AllowForceTeardown {
		return teardownResponse{}, invalid("force would remove what was made with kubectl, which this operator does not allow to callers " +
			"(--allow-force-teardown); leave it out, or delete the SandboxFunctions with kubectl")
	}
	functions, err := s.toTearDown(ctx, prefix, force)
	if err != nil {
		return teardownResponse{}, err
	}
	canonical := prefix + separator
	if err := s.removeFunctions(ctx, functions); err != nil {
		return teardownResponse{}, err
	}
	return teardownResponse{Namespace: &canonical, TornDown: true, Unregistered: idsOf(functions)}, nil
}

// toTearDown is what a teardown of the prefix removes, at least one function.
func (s *Shim) toTearDown(ctx context.Context, prefix string, force bool) ([]*v1alpha1.SandboxFunction, error) {
	functions, err := s.functionsOfPrefix(ctx, prefix)
	if err != nil || len(functions) > 0 && !force {
		return functions, err
	}
	others, err := s.othersOfPrefix(ctx, prefix)
	switch {
	case err != nil:
		return nil, err
	case force && len(functions)+len(others) > 0:
		functions = slices.Concat(functions, others)
		slices.SortStableFunc(functions, byRegistration)
		return functions, nil
	}
	return nil, noRuntime(prefix+separator, len(others))
}

func noRuntime(namespace string, others int) error {
	hint := "register a function there first, or send the runtime_id of a kept runtime"
	if others > 0 {
		hint = "its functions were made with kubectl, delete their SandboxFunctions there"
	}
	return &callError{code: codeRuntimeNotFound, message: "namespace \"" + namespace + "\" has no runtime; " + hint}
}

// othersOfPrefix are the functions that no caller of the bus made, wherever the
// manager watches.
func (s *Shim) othersOfPrefix(ctx context.Context, prefix string) ([]*v1alpha1.SandboxFunction, error) {
	var list v1alpha1.SandboxFunctionList
	if err := s.Client.List(ctx, &list, client.MatchingFields{s.FunctionPrefixIndex: prefix}); err != nil {
		return nil, apiError("listing the functions of the namespace", err)
	}
	var functions []*v1alpha1.SandboxFunction
	for i := range list.Items {
		f := &list.Items[i]
		mine := f.Namespace == s.Namespace && isFromBus(f.Labels)
		// The index has ids that are all prefix, too.
		if !mine && strings.HasPrefix(f.Spec.FunctionID, prefix+separator) {
			functions = append(functions, f)
		}
	}
	return functions, nil
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
		madeAt(a).Compare(madeAt(b)),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

// removeFunctions goes on after an error, so that as little as possible is left
// for the next attempt, and then says what is gone already.
func (s *Shim) removeFunctions(ctx context.Context, functions []*v1alpha1.SandboxFunction) error {
	runtimes := s.expectEnd(ctx, functions)
	var errs []error
	for _, f := range functions {
		errs = append(errs, s.deleteNow(ctx, f))
	}
	if err := errors.Join(errs...); err != nil {
		return s.unfinished(ctx, functions, "not all functions could be removed", err)
	}
	if err := s.awaitGone(ctx, teardownTimeout, functions...); err != nil {
		return s.unfinished(ctx, functions, "not all functions are off the bus yet", err)
	}
	for _, f := range functions {
		s.deleteSource(f)
	}
	s.awaitCalls(ctx, functions, runtimes)
	return nil
}

// unfinished lists what a repeated call no longer will
// (contracts/code-runner.md §19 X29).
func (s *Shim) unfinished(ctx context.Context, functions []*v1alpha1.SandboxFunction, what string, err error) error {
	var away []string
	for _, f := range functions {
		if gone, err := s.isAway(ctx, f); err == nil && gone {
			s.deleteSource(f)
			away = append(away, f.Spec.FunctionID)
		}
	}
	message := fmt.Sprintf("%s, tear the namespace down again: %s", what, scrub(err.Error()))
	if len(away) > 0 {
		message += "; unregistered so far: " + cut(strings.Join(away, ", "), maxMessageBytes)
	}
	return &callError{code: codeEngine, message: message}
}

// expectEnd notes that the functions and their runtimes end at a caller's wish. It
// returns the runtimes whose calls the caller waits for: not those of which a
// program is the caller.
func (s *Shim) expectEnd(ctx context.Context, functions []*v1alpha1.SandboxFunction) []*v1alpha1.SandboxRuntime {
	var awaited []*v1alpha1.SandboxRuntime
	seen := map[client.ObjectKey]bool{}
	for _, f := range functions {
		s.lifetimes.request(f.UID)
		key := client.ObjectKey{Namespace: f.Namespace, Name: f.Status.RuntimeName}
		if seen[key] {
			continue
		}
		seen[key] = true
		runtime := s.runtimeOf(ctx, f)
		if runtime == nil {
			continue
		}
		s.lifetimes.request(runtime.UID)
		if goesWithFunctions(runtime) && !s.calledFromInside(ctx, runtime) {
			awaited = append(awaited, runtime)
		}
	}
	return awaited
}

func idsOf(functions []*v1alpha1.SandboxFunction) []string {
	ids := make([]string, 0, len(functions))
	for _, f := range functions {
		ids = append(ids, f.Spec.FunctionID)
	}
	return ids
}
