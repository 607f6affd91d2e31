package shim

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// teardownTimeout bounds the wait for functions to leave the bus.
const teardownTimeout = 60 * time.Second

// teardownResponse is contracts/code-runner.md §4.3.
type teardownResponse struct {
	RuntimeID *string `json:"runtime_id,omitempty"`
	Namespace *string `json:"namespace,omitempty"`
	TornDown  bool    `json:"torn_down"`
	// Unregistered is never null.
	Unregistered []string `json:"unregistered"`
}

func (s *Shim) teardown(ctx context.Context, r teardownRequest) (teardownResponse, error) {
	switch {
	case r.runtimeID != nil && r.namespace != nil:
		return teardownResponse{}, invalid("send runtime_id or namespace, not both: " +
			"runtime_id addresses a kept runtime, namespace the functions registered under an id prefix")
	case r.runtimeID != nil && r.force:
		return teardownResponse{}, invalid("force is for a namespace; leave it out with runtime_id")
	case r.runtimeID != nil:
		return s.teardownKept(ctx, *r.runtimeID)
	case r.namespace != nil:
		return s.teardownPrefix(ctx, *r.namespace, r.force)
	}
	return teardownResponse{}, invalid("send runtime_id (of a kept runtime) or namespace (of registered functions)")
}

// teardownKept waits for the program in the runtime to end, but not for the
// sandbox to stop (contracts/code-runner.md §4.3); from the deletion on, the id is
// unknown. A program that tears its own runtime down is not waited for.
func (s *Shim) teardownKept(ctx context.Context, id string) (teardownResponse, error) {
	runtime, err := s.findKept(ctx, id)
	if err != nil {
		return teardownResponse{}, err
	}
	fromInside := s.calledFromInside(ctx, runtime)
	s.lifetimes.request(runtime.UID)
	err = s.Client.Delete(ctx, runtime, client.Preconditions{UID: &runtime.UID})
	switch {
	case apierrors.IsNotFound(err):
		return teardownResponse{}, unknownRuntime(id)
	case err != nil:
		return teardownResponse{}, apiError("tearing the runtime down", err)
	}
	if !fromInside {
		s.awaitDrained(ctx, runtime)
	}
	return teardownResponse{RuntimeID: &id, TornDown: true, Unregistered: []string{}}, nil
}
