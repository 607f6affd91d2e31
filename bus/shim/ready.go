package shim

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	// readyTimeout bounds a registration: a boot may take 300 s
	// (contracts/code-runner.md §8).
	readyTimeout = 300 * time.Second
	// daemonGrace is how long a registration waits for an absent daemon, which
	// may only be restarting.
	daemonGrace = 10 * time.Second
	// pollInterval is for reads of the manager's cache, which cost nothing.
	pollInterval = 20 * time.Millisecond
)

// errVanished: somebody deleted the function, usually a teardown
// (contracts/code-runner.md §5.3).
var errVanished = &callError{code: codeEngine, message: "the function was torn down while it was registered; register again"}

var errNotReady = &callError{code: codeTimeout, message: "the function did not become ready in time; register again"}

// awaitReady waits until the function is published as it was written, or cannot
// be. It returns the function as it then is.
func (s *Shim) awaitReady(ctx context.Context, written *v1alpha1.SandboxFunction) (ready *v1alpha1.SandboxFunction, err error) {
	bounded, cancel := withTimeout(ctx, s.Clock, readyTimeout)
	defer cancel()
	w := readyWait{now: s.Clock.Now}
	err = wait.PollUntilContextCancel(bounded, pollInterval, true, func(ctx context.Context) (done bool, err error) {
		if ready, err = s.current(ctx, written); err != nil || ready.Generation < written.Generation {
			// The cache has not seen the change yet.
			return false, err
		}
		return w.observe(ready)
	})
	switch {
	case err == nil || ctx.Err() == nil && bounded.Err() == nil:
		return ready, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, errNotReady
}

// current reads the cache, and asks the API server itself only while the cache
// does not have the object.
func (s *Shim) current(ctx context.Context, created *v1alpha1.SandboxFunction) (*v1alpha1.SandboxFunction, error) {
	for _, reader := range []client.Reader{s.Client, s.Reader} {
		found := &v1alpha1.SandboxFunction{}
		err := reader.Get(ctx, client.ObjectKeyFromObject(created), found)
		switch {
		case err == nil && found.UID == created.UID:
			return found, nil
		case err != nil && !apierrors.IsNotFound(err):
			return nil, apiError("waiting for the function", err)
		}
	}
	return nil, errVanished
}

// unfit are reasons that are tried again, but more slowly than a caller waits.
var unfit = []string{
	v1alpha1.SandboxRuntimeImageRejectedReason, v1alpha1.SandboxRuntimeFilesFailedReason,
	v1alpha1.SandboxRuntimePackagesFailedReason, v1alpha1.SandboxRuntimeSetupFailedReason,
	v1alpha1.SandboxRuntimeCrashLoopReason, v1alpha1.BusNotIsolatedReason,
}

// readyWait judges one observation after another.
type readyWait struct {
	now func() time.Time
	// daemonAbsentSince is zero unless the last observation said so.
	daemonAbsentSince time.Time
}

func (w *readyWait) observe(f *v1alpha1.SandboxFunction) (done bool, err error) {
	if !f.DeletionTimestamp.IsZero() {
		return false, errVanished
	}
	if stalled := conditionOf(f, v1alpha1.StalledCondition); stalled != nil && stalled.Status == metav1.ConditionTrue {
		return false, stalledError(f.Spec.FunctionID, stalled)
	}
	ready := conditionOf(f, v1alpha1.ReadyCondition)
	if ready == nil {
		return false, nil
	}
	return w.judge(ready)
}

func (w *readyWait) judge(ready *metav1.Condition) (done bool, err error) {
	if ready.Status == metav1.ConditionTrue {
		return true, nil
	}
	if ready.Reason != v1alpha1.DaemonUnavailableReason {
		w.daemonAbsentSince = time.Time{}
	}
	switch ready.Reason {
	case v1alpha1.CapacityReason:
		return false, &callError{code: codeCapacity, message: scrub(ready.Message)}
	case v1alpha1.DaemonUnavailableReason:
		if w.daemonAbsentSince.IsZero() {
			w.daemonAbsentSince = w.now()
		}
		if w.now().Sub(w.daemonAbsentSince) >= daemonGrace {
			return false, engineError("the sandbox daemon is not there: %s", scrub(ready.Message))
		}
	case v1alpha1.SandboxFunctionPrefixTakenReason:
		return false, invalid("%s", inCallersWords(ready.Message))
	default:
		if slices.Contains(unfit, ready.Reason) {
			return false, engineError("the function's microVM cannot be made: %s", scrub(ready.Message))
		}
	}
	return false, nil
}

// conditionOf leaves out conditions that speak of an earlier generation.
func conditionOf(f *v1alpha1.SandboxFunction, kind string) *metav1.Condition {
	condition := meta.FindStatusCondition(f.Status.Conditions, kind)
	if condition == nil || condition.ObservedGeneration < f.Generation {
		return nil
	}
	return condition
}

// stalledError tells what the caller can change from what he cannot.
func stalledError(functionID string, stalled *metav1.Condition) error {
	switch stalled.Reason {
	case v1alpha1.SandboxFunctionConflictReason:
		// The message names the holder.
		return invalid("function id %s is already registered on this bus: %s", functionID, scrub(stalled.Message))
	case v1alpha1.SandboxFunctionSourceInvalidReason:
		return invalid("source of %s is refused: %s", functionID, scrub(stalled.Message))
	case v1alpha1.SandboxFunctionPrefixTakenReason:
		return invalid("%s", inCallersWords(stalled.Message))
	case v1alpha1.SandboxFunctionReservedReason, v1alpha1.SandboxFunctionSourceTooLargeReason, v1alpha1.InvalidSpecReason:
		return invalid("%s", scrub(stalled.Message))
	}
	return engineError("%s cannot be served: %s", functionID, scrub(stalled.Message))
}
