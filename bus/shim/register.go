package shim

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	maxDescriptionBytes = 4096
	// registeredAtAnnotation orders the functions of a prefix for teardown's
	// answer; creation times have whole seconds only.
	registeredAtAnnotation = "sandbox.iii.dev/registered-at"
	registeredAtLayout     = "2006-01-02T15:04:05.000000000Z"
)

// registerResponse is contracts/code-runner.md §4.2.
type registerResponse struct {
	FunctionID string `json:"function_id"`
	Registered bool   `json:"registered"`
}

// registerFunction creates a SandboxFunction and waits until callers can use
// it. Whatever does not get that far is removed again, so that the id is free
// for another attempt.
func (s *Shim) registerFunction(ctx context.Context, r registerRequest) (registerResponse, error) {
	prefix, err := s.checkRegistration(r)
	if err != nil {
		return registerResponse{}, err
	}
	function, err := s.claim(ctx, r, prefix)
	if err != nil {
		return registerResponse{}, err
	}
	if err := s.awaitReady(ctx, function); err != nil {
		s.withdraw(function)
		return registerResponse{}, err
	}
	return registerResponse{FunctionID: r.functionID, Registered: true}, nil
}

// checkRegistration keeps the order of contracts/code-runner.md §4.2, steps 1
// to 5.
func (s *Shim) checkRegistration(r registerRequest) (prefix string, err error) {
	if err := checkCode("source", r.source, "it must define handler(payload)"); err != nil {
		return "", err
	}
	if len(r.functionID) > v1alpha1.MaxFunctionIDBytes {
		return "", invalid("function_id has %d bytes; the limit is %d", len(r.functionID), v1alpha1.MaxFunctionIDBytes)
	}
	if r.description != nil && len(*r.description) > maxDescriptionBytes {
		return "", invalid("description has %d bytes; the limit is %d", len(*r.description), maxDescriptionBytes)
	}
	return s.splitFunctionID(r.functionID)
}

// claim holds the lock of the prefix and language from the check to the
// creation, so that the cap and the order of answers hold. The lock is for one
// process; between processes the object's name is unique and the function's
// controller decides.
func (s *Shim) claim(ctx context.Context, r registerRequest, prefix string) (*v1alpha1.SandboxFunction, error) {
	unlock, err := s.registering.lock(ctx, prefix+separator+string(r.language))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.checkUnclaimed(ctx, r.functionID); err != nil {
		return nil, err
	}
	if err := s.checkCap(ctx, prefix, r.language); err != nil {
		return nil, err
	}
	if err := s.probe(ctx, r.functionID); err != nil {
		return nil, err
	}
	return s.createFunction(ctx, s.newFunction(r, prefix), r.source)
}

func (s *Shim) newFunction(r registerRequest, prefix string) *v1alpha1.SandboxFunction {
	return &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace,
			Name:      functionName(r.functionID),
			Labels:    busLabels(v1alpha1.PrefixHashLabel, shortHash(prefix)),
			Annotations: map[string]string{
				v1alpha1.FunctionIDAnnotation: r.functionID,
				registeredAtAnnotation:        s.now().Format(registeredAtLayout),
			},
		},
		Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID:  r.functionID,
			Language:    r.language,
			Description: s.describe(r),
		},
	}
}

func (s *Shim) now() time.Time { return s.Clock.Now().UTC() }

// describe makes sure that readers of the catalog always see something
// (contracts/code-runner.md §4.2).
func (s *Shim) describe(r registerRequest) string {
	if r.description != nil && *r.description != "" {
		return *r.description
	}
	return fmt.Sprintf("%s handler in a microVM of %s", r.language, s.WorkerName)
}
