package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	maxDescriptionBytes = 4096
	// registeredAtLayout is that of v1alpha1.RegisteredAtAnnotation, which orders
	// the functions of a prefix for teardown's answer.
	registeredAtLayout = "2006-01-02T15:04:05.000000000Z"
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
	ctx, leave := s.callers.enter(ctx)
	defer leave()
	function, present, err := s.claim(ctx, r, prefix)
	switch {
	case err != nil:
		return registerResponse{}, err
	case present:
		return s.replaceFunction(ctx, r)
	}
	s.lifetimes.expect(function.UID)
	ready, err := s.awaitReady(ctx, function)
	if err != nil {
		s.lifetimes.forget(function.UID)
		s.withdraw(function)
		return registerResponse{}, err
	}
	s.tellRegistered(ctx, ready, outcomeNew)
	return registerResponse{FunctionID: r.functionID, Registered: true}, nil
}

// checkRegistration keeps the order of contracts/code-runner.md §4.2, steps 1
// to 5; the additions come after that.
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
	if prefix, err = s.splitFunctionID(r.functionID); err != nil {
		return "", err
	}
	return prefix, r.checkAdditions()
}

// claim holds the lock of the prefix and language from the check to the
// creation, so that the cap and the order of answers hold. The lock is for one
// process; between processes the object's name is unique and the function's
// controller decides. present says that there is a function to replace instead.
func (s *Shim) claim(ctx context.Context, r registerRequest, prefix string) (f *v1alpha1.SandboxFunction, present bool, err error) {
	unlock, err := s.registering.lock(ctx, prefix+separator+string(r.language))
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	holder, err := s.holder(ctx, r.functionID)
	if err != nil {
		return nil, false, err
	}
	if holder != nil {
		return nil, true, s.checkReplaceable(r, holder)
	}
	if err := s.checkCap(ctx, prefix, r.language); err != nil {
		return nil, false, err
	}
	if err := s.probe(ctx, r.functionID); err != nil {
		return nil, false, err
	}
	f, err = s.createFunction(ctx, s.newFunction(ctx, r, prefix), r.source)
	return f, false, err
}

func (s *Shim) newFunction(ctx context.Context, r registerRequest, prefix string) *v1alpha1.SandboxFunction {
	f := &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace,
			Name:      functionName(r.functionID),
			Labels:    busLabels(v1alpha1.PrefixHashLabel, shortHash(prefix)),
			Annotations: ownedBy(ctx, v1alpha1.FunctionIDAnnotation, r.functionID,
				v1alpha1.RegisteredAtAnnotation, s.now().Format(registeredAtLayout)),
		},
		Spec: v1alpha1.SandboxFunctionSpec{FunctionID: r.functionID},
	}
	if r.empty() {
		f.Spec.Language = r.language
	} else {
		f.Spec.Runtime = r.ownRuntime()
	}
	s.fill(&f.Spec, r)
	return f
}

// fill sets what replace may change too, the source and the runtime apart.
func (s *Shim) fill(spec *v1alpha1.SandboxFunctionSpec, r registerRequest) {
	spec.Description = s.describe(r)
	spec.RequestSchema, spec.ResponseSchema = asJSON(r.requestFormat), asJSON(r.responseFormat)
	spec.TimeoutMilliseconds = nil
	if r.timeoutMilliseconds > 0 {
		spec.TimeoutMilliseconds = ptr.To(int32(s.programTimeout(r.timeoutMilliseconds).Milliseconds())) //nolint:gosec // at most 290,000
	}
}

// ownRuntime is for a function that needs more than the others of its prefix.
func (r registerRequest) ownRuntime() *v1alpha1.FunctionRuntime {
	runtime := &v1alpha1.FunctionRuntime{Language: r.language, GuestSpec: *guestOfBus()}
	runtime.Env, runtime.Files, runtime.Packages = r.variables(), r.files, r.packages
	return runtime
}

func asJSON(raw json.RawMessage) *apiextensionsv1.JSON {
	if raw == nil {
		return nil
	}
	return &apiextensionsv1.JSON{Raw: raw}
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
