package shim

import (
	"context"
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
