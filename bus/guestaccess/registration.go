package guestaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// ownerKey marks a guest's functions in the engine's catalog. Only the operator
// writes it, so it proves to the trigger hook whose a function is.
const ownerKey = "sandbox.iii.dev/guest"

// reservedPrefixes belong to the engine, the sandbox daemon and the original
// worker (contracts/code-runner.md §6).
var reservedPrefixes = []string{"engine", "sandbox", "sandbox-code-runner", "state", "stream", "iii"}

// reservedIDs have no prefix and are the engine's own.
var reservedIDs = []string{"publish"}

// registration is a function that a guest wants to publish
// (contracts/iii-bus.md §9.4).
type registration struct {
	FunctionID string          `json:"function_id"`
	Namespace  string          `json:"namespace"`
	Metadata   json.RawMessage `json:"metadata"`
	Context    sessionContext  `json:"context"`
}

// authorizeRegistration lets guests publish functions of their own, which live as
// long as their process (contracts/code-runner.md G12), but not take what is
// somebody else's. No value drops the registration.
func (s *Service) authorizeRegistration(ctx context.Context, inv bus.Invocation) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	var r registration
	if err := json.Unmarshal(inv.Data, &r); err != nil {
		return nil, errors.New("the registration does not decode")
	}
	s.inspected(r.Context.Guest, functionAsked)
	if err := s.mayRegister(ctx, r); err != nil {
		s.Logger.Debug("Registration refused", "function", r.FunctionID, "namespace", r.Context.Guest.Namespace,
			"name", r.Context.Guest.Name, "cause", err)
		return nil, nil
	}
	return markedMetadata(r)
}

func (s *Service) mayRegister(ctx context.Context, r registration) error {
	prefix, _, _ := strings.Cut(r.FunctionID, "::")
	switch {
	case r.Context.Guest == (Guest{}):
		return errors.New("not a session of a guest")
	case r.Namespace != "" && r.Namespace != protocol.DefaultNamespace:
		return errors.New("another bus namespace")
	case strings.TrimSpace(r.FunctionID) == "" || slices.Contains(reservedIDs, r.FunctionID):
		return errors.New("the id is the engine's")
	case prefix == s.WorkerName || slices.Contains(reservedPrefixes, prefix):
		return errors.New("the prefix is reserved")
	}
	return s.unclaimed(ctx, r.FunctionID, prefix, r.Context.Guest.Namespace)
}

// unclaimed refuses ids that a SandboxFunction has, served or not, and prefixes
// under which another Kubernetes namespace has any.
func (s *Service) unclaimed(ctx context.Context, id, prefix, namespace string) error {
	var functions v1alpha1.SandboxFunctionList
	// Every guest that registers asks, so the functions of other prefixes are not
	// looked at. Read only, and of all namespaces: a copy of each would cost.
	err := s.Client.List(ctx, &functions, client.MatchingFields{s.FunctionPrefixIndex: prefix}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the functions of the prefix: %w", err)
	}
	for i := range functions.Items {
		switch f := &functions.Items[i]; {
		case f.Spec.FunctionID == id:
			return errors.New("a SandboxFunction has the id")
		case f.Namespace != namespace:
			return errors.New("another namespace has functions of this prefix")
		}
	}
	return nil
}

// markedMetadata is the answer that lets a registration pass. One whose metadata
// have no room for a mark is dropped as the others are.
func markedMetadata(r registration) (json.RawMessage, error) {
	metadata, ok := marked(r.Metadata, r.Context.Guest)
	if !ok {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": metadata})
}

// marked adds the owner to a function's metadata, unless these are no object.
func marked(metadata json.RawMessage, g Guest) (fields map[string]any, ok bool) {
	if len(metadata) > 0 && json.Unmarshal(metadata, &fields) != nil {
		return nil, false
	}
	if fields == nil {
		fields = map[string]any{}
	}
	fields[ownerKey] = g.owner()
	return fields, true
}
