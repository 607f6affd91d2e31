package shim

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Programs knows the programs that run in sandboxes.
type Programs interface {
	// Inside reports whether a call of this worker on the bus comes from a program
	// in the runtime, directly or by way of published functions.
	Inside(ctx context.Context, worker string, runtime *v1alpha1.SandboxRuntime) bool
}

// errOwnTurn: the run would wait for the program that waits for it
// (contracts/code-runner.md §7.2, §19 W2).
var errOwnTurn = &callError{code: codeCapacity, message: "the call comes from a program in this very runtime, which runs one program at a time; " +
	"run it without runtime_id, or after that program"}

func (s *Shim) calledFromInside(ctx context.Context, runtime *v1alpha1.SandboxRuntime) bool {
	worker := callerOf(ctx)
	return s.Programs != nil && worker != "" && s.Programs.Inside(ctx, worker, runtime)
}

// drainGrace is what the end of a program may take beyond its own limit.
const drainGrace = 10 * time.Second

// awaitDrained waits until a deleted runtime has no program any more, no longer
// than one can take. Whatever comes of it, the runtime is on its way out.
func (s *Shim) awaitDrained(ctx context.Context, runtime *v1alpha1.SandboxRuntime) {
	bounded, cancel := withTimeout(ctx, s.Clock, s.MaxTimeout+drainGrace)
	defer cancel()
	err := wait.PollUntilContextCancel(bounded, pollInterval, true, func(ctx context.Context) (bool, error) {
		return s.isDrained(ctx, runtime), nil
	})
	if err != nil && ctx.Err() == nil {
		s.Logger.Warn("A program goes on in a runtime that was torn down", "runtime", runtime.Name)
	}
}

// isDrained asks the API server itself only once the cache has lost the runtime.
func (s *Shim) isDrained(ctx context.Context, runtime *v1alpha1.SandboxRuntime) bool {
	for _, reader := range []client.Reader{s.Client, s.Reader} {
		found := &v1alpha1.SandboxRuntime{}
		err := reader.Get(ctx, client.ObjectKeyFromObject(runtime), found)
		switch {
		case err == nil && found.UID == runtime.UID:
			return !found.DeletionTimestamp.IsZero() && !hasReadySandbox(found)
		case client.IgnoreNotFound(err) != nil:
			return false
		}
	}
	return true
}

// hasReadySandbox is true while programs may run: a sandbox of a deleted runtime
// is being stopped once the last of them has ended.
func hasReadySandbox(runtime *v1alpha1.SandboxRuntime) bool {
	for i := range runtime.Status.Instances {
		if runtime.Status.Instances[i].State == v1alpha1.InstanceReady {
			return true
		}
	}
	return false
}

// goesWithFunctions is true of a runtime that ends with the last of its functions.
func goesWithFunctions(runtime *v1alpha1.SandboxRuntime) bool {
	return runtime.Labels[v1alpha1.ImplicitLabel] != "" || runtime.Labels[v1alpha1.OwnLabel] != ""
}

// awaitCalls waits until the calls in flight of removed functions have ended, no
// longer than they can take, in the runtimes that go with these functions. In one
// that stays they come to their end by themselves.
func (s *Shim) awaitCalls(ctx context.Context, removed []*v1alpha1.SandboxFunction, runtimes []*v1alpha1.SandboxRuntime) {
	bounded, cancel := withTimeout(ctx, s.Clock, s.longestCall(removed)+drainGrace)
	defer cancel()
	for _, runtime := range runtimes {
		err := wait.PollUntilContextCancel(bounded, pollInterval, true, func(ctx context.Context) (bool, error) {
			return s.hasNoCalls(ctx, runtime), nil
		})
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("A call goes on in a runtime whose functions were torn down", "runtime", runtime.Name)
		}
	}
}

// longestCall is what a call of one of the functions may take.
func (s *Shim) longestCall(functions []*v1alpha1.SandboxFunction) time.Duration {
	longest := s.DefaultTimeout
	for _, f := range functions {
		if f.Spec.TimeoutMilliseconds != nil {
			longest = max(longest, time.Duration(*f.Spec.TimeoutMilliseconds)*time.Millisecond)
		}
	}
	return longest
}

// hasNoCalls relies on the runtime's controller, which stops the sandboxes of a
// runtime without functions once the last call in them has ended. It is true too
// where nobody will: while the daemon is away, and if others use the runtime again.
func (s *Shim) hasNoCalls(ctx context.Context, runtime *v1alpha1.SandboxRuntime) bool {
	found := &v1alpha1.SandboxRuntime{}
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(runtime), found)
	switch {
	case err != nil:
		return client.IgnoreNotFound(err) == nil
	case found.UID != runtime.UID, !hasReadySandbox(found), !s.Fleet.Snapshot().Available:
		return true
	default:
		return found.DeletionTimestamp.IsZero() && s.hasFunctions(ctx, found)
	}
}

func (s *Shim) hasFunctions(ctx context.Context, runtime *v1alpha1.SandboxRuntime) bool {
	var list v1alpha1.SandboxFunctionList
	// Only read, and often.
	err := s.Client.List(ctx, &list, client.InNamespace(runtime.Namespace),
		client.MatchingFields{s.FunctionRuntimeIndex: runtime.Name}, client.UnsafeDisableDeepCopy)
	return err == nil && slices.ContainsFunc(list.Items, func(f v1alpha1.SandboxFunction) bool { return f.DeletionTimestamp.IsZero() })
}
