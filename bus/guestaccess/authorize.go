package guestaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// handshake is what the engine tells of a connection (contracts/iii-bus.md §9.2).
// It holds the credential, and is never printed.
type handshake struct {
	Headers     map[string]string   `json:"headers"`
	QueryParams map[string][]string `json:"query_params"`
}

// credential is the presented token: a bearer header, or the query of III_URL.
func (h handshake) credential() string {
	for name, value := range h.Headers {
		if token, bearer := strings.CutPrefix(value, "Bearer "); bearer && strings.EqualFold(name, "authorization") {
			return strings.TrimSpace(token)
		}
	}
	if values := h.QueryParams[tokenParameter]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// errEnded says that a sandbox is not one that the operator wants.
var errEnded = errors.New("the sandbox of this credential has ended")

// authorizeGuest is the listener's auth function: its error closes the
// connection, its answer is the session's policy.
func (s *Service) authorizeGuest(ctx context.Context, inv bus.Invocation) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	var h handshake
	if json.Unmarshal(inv.Data, &h) != nil {
		return nil, refusal(errInvalid)
	}
	guest, err := s.Authority.Verify(h.credential())
	if err != nil {
		s.Logger.Debug("Connection refused", "cause", err)
		return nil, refusal(errInvalid)
	}
	granted, err := s.policyFor(ctx, guest)
	if err != nil {
		s.Logger.Debug("Guest refused", "kind", guest.Kind, "namespace", guest.Namespace, "name", guest.Name, "cause", err)
		return nil, refusal(err)
	}
	return json.Marshal(granted)
}

// refusal tells the guest our own words only.
func refusal(err error) error {
	message := "whether this credential still holds cannot be found out; try again"
	if errors.Is(err, errInvalid) || errors.Is(err, errEnded) {
		message = err.Error()
	}
	return &bus.RemoteError{Code: protocol.CodeAuthError, Message: message}
}

func (s *Service) policyFor(ctx context.Context, g Guest) (policy, error) {
	allow, err := s.allowed(ctx, g)
	if err != nil {
		return policy{}, err
	}
	present, err := s.catalog.list(ctx)
	if err != nil {
		return policy{}, err
	}
	return newPolicy(g, allow, present, s.own()), nil
}

// allowed is the present busAllow of a guest's object, if the guest is still one
// of its sandboxes.
func (s *Service) allowed(ctx context.Context, g Guest) ([]string, error) {
	if g.Kind == kindProbe {
		if s.inspection(g) == nil {
			return nil, errEnded
		}
		return nil, nil
	}
	allow, err := lookUp(ctx, s.Client, g)
	if !errors.Is(err, errEnded) {
		return allow, err
	}
	// The cache may be older than the write that announced this sandbox.
	if !s.direct.TryAccept() {
		return nil, errors.New("too many unknown sandboxes at once")
	}
	return lookUp(ctx, s.Reader, g)
}

func lookUp(ctx context.Context, reader client.Reader, g Guest) ([]string, error) {
	spec, err := specOf(ctx, reader, g)
	if err != nil {
		return nil, err
	}
	if spec == nil || !spec.HasBusAccess() {
		return nil, errEnded
	}
	return spec.BusAllow, nil
}

// specOf finds the spec that a guest's sandbox is made from; nil if the object
// has gone or no longer lists the sandbox.
func specOf(ctx context.Context, reader client.Reader, g Guest) (*v1alpha1.GuestSpec, error) {
	key := client.ObjectKey{Namespace: g.Namespace, Name: g.Name}
	switch g.Kind {
	case KindRuntime:
		var runtime v1alpha1.SandboxRuntime
		if err := get(ctx, reader, key, &runtime); err != nil || runtime.UID != g.UID || !hasInstance(&runtime, g.Instance) {
			return nil, err
		}
		return &runtime.Spec.GuestSpec, nil
	case KindRun:
		var run v1alpha1.SandboxRun
		if err := get(ctx, reader, key, &run); err != nil || run.UID != g.UID || !isAttempt(&run, g.Instance) {
			return nil, err
		}
		return run.Spec.Runtime, nil
	default:
		return nil, nil
	}
}

// get leaves an object empty that is not there.
func get(ctx context.Context, reader client.Reader, key client.ObjectKey, obj client.Object) error {
	if err := client.IgnoreNotFound(reader.Get(ctx, key, obj)); err != nil {
		return fmt.Errorf("looking a guest up: %s", apierrors.ReasonForError(err))
	}
	return nil
}

func hasInstance(runtime *v1alpha1.SandboxRuntime, digest string) bool {
	return slices.ContainsFunc(runtime.Status.Instances, func(i v1alpha1.InstanceStatus) bool {
		return i.Digest == digest && i.State != v1alpha1.InstanceStopping
	})
}

func isAttempt(run *v1alpha1.SandboxRun, digest string) bool {
	return run.Status.AttemptDigest == digest && !run.IsFinished() && run.DeletionTimestamp.IsZero()
}
