package shim

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// rollbackTimeout bounds the way back to the former code.
const rollbackTimeout = 10 * time.Second

// checkReplaceable refuses to touch what no caller of the bus made, and what
// only a new function can change.
func (s *Shim) checkReplaceable(r registerRequest, holder *v1alpha1.SandboxFunction) error {
	switch {
	case !r.replace, !holder.DeletionTimestamp.IsZero():
		return alreadyRegistered(r.functionID, named(holder))
	case holder.Namespace != s.Namespace, !isFromBus(holder.Labels):
		return invalid("function id %s belongs to %s, which was not made over the bus; change it with kubectl or use another id",
			r.functionID, named(holder))
	case languageOf(holder) != r.language:
		return invalid("lang is %q but %s is %q; a function cannot change its language, tear it down first or use another id",
			languageWords[r.language], r.functionID, languageWords[languageOf(holder)])
	case holder.Spec.Runtime == nil && !r.empty():
		return invalid("%s shares the microVM of its namespace, but packages, env and files need one of its own; "+
			"tear it down first or use another id", r.functionID)
	}
	return nil
}

// replaceFunction puts new code in the place of what the id has. Callers get the
// former code until the new one is known to work, and for good if it does not
// (contracts/code-runner.md §19 X27).
func (s *Shim) replaceFunction(ctx context.Context, r registerRequest) (registerResponse, error) {
	unlock, err := s.replacing.lock(ctx, r.functionID)
	if err != nil {
		return registerResponse{}, err
	}
	defer unlock()
	former, err := s.toReplace(ctx, r)
	if err != nil {
		return registerResponse{}, err
	}
	changed, err := s.change(ctx, r, former)
	if err != nil {
		return registerResponse{}, err
	}
	ready, err := s.awaitReady(ctx, changed)
	if err != nil {
		s.rollBack(former, changed)
		return registerResponse{}, err
	}
	if sourceName(former) != sourceName(changed) {
		s.deleteSource(former)
	}
	s.tellRegistered(ctx, ready, outcomeReplaced)
	return registerResponse{FunctionID: r.functionID, Registered: true}, nil
}

// toReplace reads the function anew, since another replacement or a teardown may
// have come first.
func (s *Shim) toReplace(ctx context.Context, r registerRequest) (*v1alpha1.SandboxFunction, error) {
	holder, err := s.holder(ctx, r.functionID)
	if err != nil {
		return nil, err
	}
	if holder == nil {
		return nil, errVanished
	}
	return holder, s.checkReplaceable(r, holder)
}

// change writes the new spec. What a caller cannot say, such as triggers, stays.
func (s *Shim) change(ctx context.Context, r registerRequest, former *v1alpha1.SandboxFunction) (*v1alpha1.SandboxFunction, error) {
	changed := former.DeepCopy()
	source, err := s.newSource(ctx, changed, r.source)
	if err != nil {
		return nil, err
	}
	changed.Spec.Source = source
	s.fill(&changed.Spec, r)
	if own := changed.Spec.Runtime; own != nil {
		own.Env, own.Files, own.Packages = r.variables(), r.files, r.packages
	}
	err = s.Client.Patch(ctx, changed, client.MergeFromWithOptions(former.DeepCopy(), client.MergeFromWithOptimisticLock{}))
	if err == nil {
		return changed, nil
	}
	if sourceName(changed) != sourceName(former) {
		s.deleteSource(changed)
	}
	if client.IgnoreNotFound(err) == nil {
		return nil, errVanished
	}
	return nil, apiError("replacing the function", err)
}

// newSource stores a source that is too large for the function beside it.
func (s *Shim) newSource(ctx context.Context, f *v1alpha1.SandboxFunction, source string) (v1alpha1.FunctionSource, error) {
	if len(source) <= v1alpha1.MaxInlineSourceBytes {
		return v1alpha1.FunctionSource{Inline: &source}, nil
	}
	stored, err := s.storeSource(ctx, f, source)
	if err != nil {
		return v1alpha1.FunctionSource{}, err
	}
	if err := s.own(ctx, f, stored); err != nil {
		s.deleteLater(stored)
		return v1alpha1.FunctionSource{}, err
	}
	return v1alpha1.FunctionSource{ConfigMapKeyRef: &v1alpha1.KeyReference{Name: stored.Name, Key: sourceKeys[languageOf(f)]}}, nil
}

func sourceName(f *v1alpha1.SandboxFunction) string {
	if ref := f.Spec.Source.ConfigMapKeyRef; ref != nil {
		return ref.Name
	}
	return ""
}

// errChangedAgain: somebody else wrote the function after us, whose word counts.
var errChangedAgain = errors.New("the function was changed again")

// rollBack restores the former spec, also for a caller who has gone. Status
// writes move the resource version, so conflicts are tried again.
func (s *Shim) rollBack(former, changed *v1alpha1.SandboxFunction) {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current := &v1alpha1.SandboxFunction{}
		if err := s.Reader.Get(ctx, client.ObjectKeyFromObject(changed), current); err != nil {
			return client.IgnoreNotFound(err)
		}
		if current.UID != changed.UID || current.Generation != changed.Generation {
			return errChangedAgain
		}
		base := current.DeepCopy()
		current.Spec = former.Spec
		return s.Client.Patch(ctx, current, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	})
	switch {
	case errors.Is(err, errChangedAgain):
		return
	case err != nil:
		s.Logger.Warn("A function could not be set back to its former code", "function", former.Spec.FunctionID)
		return
	}
	if sourceName(former) != sourceName(changed) {
		s.deleteSource(changed)
	}
}
