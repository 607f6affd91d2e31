package shim

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// minIdleTimeout is the floor of contracts/code-runner.md §7.3.
const minIdleTimeout = 30 * time.Second

// runAndKeep makes a runtime and hands out its id if the run settled, whatever
// its exit code. After an error the runtime goes: the caller never learns its
// id, so nobody could reach it (contracts/code-runner.md §4.1).
func (s *Shim) runAndKeep(ctx context.Context, r runRequest, timeout time.Duration) (runResponse, error) {
	id := mintRuntimeID()
	runtime := s.newKept(ctx, id, r)
	if err := s.Client.Create(ctx, runtime); err != nil {
		s.deleteLater(runtime)
		return runResponse{}, apiError("keeping a runtime", err)
	}
	s.lifetimes.expect(runtime.UID)
	outcome, err := s.execute(ctx, r.into(specInKept(runtime)), r.code, timeout)
	if err != nil {
		s.lifetimes.forget(runtime.UID)
		s.deleteLater(runtime)
		err = failed(err, nil)
		s.tellFailed(r.language, nil, err)
		return runResponse{}, err
	}
	s.ids.put(runtime.Name, heldID{id: id, maker: callerOf(ctx)})
	s.tellKept(runtime, outcome)
	return respond(outcome, &id), nil
}

// runInKept never stops the runtime, also when the run fails. Only a runtime
// whose sandbox was lost goes, because a kept runtime is a promise about its
// files (contracts/code-runner.md §7.3).
func (s *Shim) runInKept(ctx context.Context, r runRequest, timeout time.Duration) (runResponse, error) {
	runtime, err := s.findKept(ctx, *r.runtimeID)
	if err != nil {
		return runResponse{}, err
	}
	if r.language != "" && r.language != runtime.Spec.Language {
		return runResponse{}, invalid("lang is %q but this runtime is %q; languages cannot be mixed in a runtime, leave lang out",
			languageWords[r.language], languageWords[runtime.Spec.Language])
	}
	s.ids.put(runtime.Name, heldID{id: *r.runtimeID})
	if s.calledFromInside(ctx, runtime) {
		return runResponse{}, errOwnTurn
	}
	outcome, err := s.execute(ctx, r.into(specInKept(runtime)), r.code, timeout)
	if err == nil {
		s.tellSettled(runtime.Spec.Language, runtime, outcome)
		return respond(outcome, r.runtimeID), nil
	}
	if isGone(err) {
		// The caller who is told so must not find the runtime again (§7.3).
		s.deleteSurely(runtime)
	}
	err = failed(err, r.runtimeID)
	s.tellFailed(runtime.Spec.Language, runtime, err)
	return runResponse{}, err
}

func specInKept(runtime *v1alpha1.SandboxRuntime) v1alpha1.SandboxRunSpec {
	return v1alpha1.SandboxRunSpec{
		Language:   runtime.Spec.Language,
		RuntimeRef: &v1alpha1.LocalReference{Name: runtime.Name},
	}
}

// newKept runs one program at a time, as callers of the original expect
// (contracts/code-runner.md §7.2).
func (s *Shim) newKept(ctx context.Context, id string, r runRequest) *v1alpha1.SandboxRuntime {
	idle := max(s.IdleTimeout, minIdleTimeout)
	guest := guestOfBus()
	guest.Packages = r.packages
	return &v1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: keptName(id), Labels: busLabels(),
			Annotations: ownedBy(ctx, v1alpha1.RegisteredAtAnnotation, s.now().Format(registeredAtLayout)),
		},
		Spec: v1alpha1.SandboxRuntimeSpec{
			Language:  r.language,
			GuestSpec: *guest,
			RuntimeScale: v1alpha1.RuntimeScale{
				Concurrency: ptr.To[int32](1),
				Idle: &v1alpha1.IdlePolicy{
					TimeoutSeconds: ptr.To(int32(idle.Round(time.Second) / time.Second)),
					Action:         v1alpha1.IdleDelete,
				},
			},
		},
	}
}

// findKept asks the API server itself, so that an id holds right after a
// restart and never after a teardown.
func (s *Shim) findKept(ctx context.Context, id string) (*v1alpha1.SandboxRuntime, error) {
	runtime := &v1alpha1.SandboxRuntime{}
	key := client.ObjectKey{Namespace: s.Namespace, Name: keptName(id)}
	err := s.Reader.Get(ctx, key, runtime)
	switch {
	case apierrors.IsNotFound(err):
		s.ids.drop(key.Name)
		return nil, unknownRuntime(id)
	case err != nil:
		return nil, apiError("looking the runtime up", err)
	case !isFromBus(runtime.Labels), !runtime.DeletionTimestamp.IsZero():
		return nil, unknownRuntime(id)
	}
	return runtime, nil
}

// unknownRuntime echoes the id to the caller who sent it
// (contracts/code-runner.md §5.1).
func unknownRuntime(id string) error {
	return &callError{code: codeRuntimeNotFound, message: "unknown runtime_id " + cut(id, maxEchoedIDBytes)}
}

// maxEchoedIDBytes leaves any real id whole.
const maxEchoedIDBytes = 64

func isGone(err error) bool {
	var failure *Failure
	return errors.As(err, &failure) && failure.Code == FailureGone
}
