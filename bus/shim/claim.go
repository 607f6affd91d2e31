package shim

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

const (
	// maxFunctions per id prefix and language (contracts/code-runner.md §6).
	maxFunctions = 64
	// probeTimeout bounds the question to the bus catalog (§8).
	probeTimeout = 5 * time.Second
	// leavingTimeout bounds the wait for an earlier function of the same id that
	// is on its way out.
	leavingTimeout = 10 * time.Second
)

// alreadyRegistered names who has the id, which is empty if that is not known.
func alreadyRegistered(functionID, holder string) error {
	if holder != "" {
		holder = " by " + holder
	}
	return invalid("function id %s is already registered on this bus%s; tear it down first or use another id", functionID, holder)
}

// named is how a caller is told of an object: the bus and kubectl share one
// registry.
func named(f *v1alpha1.SandboxFunction) string {
	return "SandboxFunction " + f.Namespace + "/" + f.Name
}

// holder is the SandboxFunction that has an id, wherever the manager watches, or
// nil. No bus call is made for it (contracts/code-runner.md §4.2 step 6).
func (s *Shim) holder(ctx context.Context, functionID string) (*v1alpha1.SandboxFunction, error) {
	var functions v1alpha1.SandboxFunctionList
	if err := s.Client.List(ctx, &functions, client.MatchingFields{s.FunctionIDIndex: functionID}); err != nil {
		return nil, apiError("looking the function id up", err)
	}
	name := functionName(functionID)
	for i := range functions.Items {
		// Our own object of this id is asked for below, past the cache.
		if f := &functions.Items[i]; f.Namespace != s.Namespace || f.Name != name {
			return f, nil
		}
	}
	return s.ownHolder(ctx, name)
}

// ownHolder waits for one that is on its way out.
func (s *Shim) ownHolder(ctx context.Context, name string) (*v1alpha1.SandboxFunction, error) {
	existing := &v1alpha1.SandboxFunction{}
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, existing)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, apiError("looking the function up", err)
	case existing.DeletionTimestamp.IsZero():
		return existing, nil
	}
	if err := s.awaitGone(ctx, leavingTimeout, existing); err != nil {
		return existing, nil //nolint:nilerr // it holds the id still, which is the answer
	}
	return nil, nil
}

// checkCap counts what the API server has, because the cache may lack the
// registration of a moment ago.
func (s *Shim) checkCap(ctx context.Context, prefix string, language v1alpha1.Language) error {
	functions, err := s.functionsOfPrefix(ctx, prefix)
	if err != nil {
		return err
	}
	count := 0
	for _, f := range functions {
		if languageOf(f) == language && f.DeletionTimestamp.IsZero() {
			count++
		}
	}
	if count >= maxFunctions {
		return invalid("namespace %q already holds %d %s functions, which is the limit; tear it down or use another namespace",
			prefix+separator, count, languageWords[language])
	}
	return nil
}

// probe asks the bus whether anybody serves the id. Only the engine's own word
// that there is none frees it; a catalog that cannot be asked does not
// (contracts/code-runner.md §4.2 step 9, §5.4).
func (s *Shim) probe(ctx context.Context, functionID string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	info, err := s.Bus.FunctionInfo(ctx, functionID, protocol.DefaultNamespace)
	switch {
	case err == nil:
		return alreadyRegistered(functionID, workerNamed(info.WorkerName))
	case bus.RemoteCode(err) == protocol.CodeNotFound:
		return nil
	}
	// function_not_found means that the engine lacks the catalog itself.
	return engineError("the bus could not say whether function id %s is free: %s", functionID, scrub(err.Error()))
}

func workerNamed(name string) string {
	if name == "" {
		return "another worker"
	}
	return fmt.Sprintf("the worker %q", scrub(name))
}
