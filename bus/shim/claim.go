package shim

import (
	"context"
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

func alreadyRegistered(functionID string) error {
	return invalid("function id %s is already registered on this bus; tear it down first or use another id", functionID)
}

// checkUnclaimed refuses an id that a SandboxFunction has, wherever the manager
// watches. No bus call is made for it (contracts/code-runner.md §4.2 step 6).
func (s *Shim) checkUnclaimed(ctx context.Context, functionID string) error {
	var functions v1alpha1.SandboxFunctionList
	if err := s.Client.List(ctx, &functions); err != nil {
		return apiError("listing functions", err)
	}
	name := functionName(functionID)
	for _, f := range functions.Items {
		// Our own object of this id is asked for below, past the cache.
		mine := f.Namespace == s.Namespace && f.Name == name
		if f.Spec.FunctionID == functionID && !mine {
			return alreadyRegistered(functionID)
		}
	}
	return s.checkNameFree(ctx, name, functionID)
}

func (s *Shim) checkNameFree(ctx context.Context, name, functionID string) error {
	existing := &v1alpha1.SandboxFunction{}
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, existing)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apiError("looking the function up", err)
	case existing.DeletionTimestamp.IsZero():
		return alreadyRegistered(functionID)
	}
	if err := s.awaitGone(ctx, leavingTimeout, existing); err != nil {
		return alreadyRegistered(functionID)
	}
	return nil
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
		if f.Spec.Language == language && f.DeletionTimestamp.IsZero() {
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
	_, err := s.Bus.FunctionInfo(ctx, functionID, protocol.DefaultNamespace)
	switch {
	case err == nil:
		return alreadyRegistered(functionID)
	case bus.RemoteCode(err) == protocol.CodeNotFound:
		return nil
	}
	// function_not_found means that the engine lacks the catalog itself.
	return engineError("the bus could not say whether function id %s is free: %s", functionID, scrub(err.Error()))
}
