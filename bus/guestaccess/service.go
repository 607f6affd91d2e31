package guestaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// Names, after the worker's own, of the functions that the guest listener's
// configuration must give (contracts/iii-bus.md §9.2): auth_function_id,
// on_function_registration_function_id and on_trigger_registration_function_id.
const (
	AuthorizeGuest        = "::authorize-guest"
	AuthorizeRegistration = "::authorize-registration"
	AuthorizeTrigger      = "::authorize-trigger"
)

// decisionTimeout stays below the engine's own limits of 10 s.
const decisionTimeout = 8 * time.Second

// Bus is what the service needs of a bus client on the trusted listener.
type Bus interface {
	RegisterFunction(bus.Function) error
	Call(ctx context.Context, call bus.Call) (json.RawMessage, error)
	FunctionInfo(ctx context.Context, id, namespace string) (bus.FunctionInfo, error)
}

// Options configures a Service. All fields but Clock and Logger are required.
type Options struct {
	Bus Bus
	// Client reads from the manager's cache.
	Client client.Reader
	// FunctionPrefixIndex is the field under which Client finds SandboxFunctions of
	// all namespaces by the first segment of their function id, without the colons.
	FunctionPrefixIndex string
	// Reader reads from the API server itself, for sandboxes that the cache does
	// not know yet.
	Reader    client.Reader
	Authority *Authority
	// WorkerName is the prefix of the function ids.
	WorkerName string
	// Clock is for the age of what was read from the engine; nil means real time.
	Clock clock.PassiveClock
	// Logger receives, as debug lines, why guests were refused; nil is silent.
	Logger *slog.Logger
}

// Service answers the engine's questions about guests. Its methods may be called
// concurrently.
type Service struct {
	Options
	catalog catalog
	// direct bounds the reads past the cache: the credential of an ended sandbox
	// still has a good signature, and must not be a way to burden the API server.
	direct flowcontrol.RateLimiter

	mu     sync.Mutex
	probes map[string]*inspection
}

const (
	directReadsPerSecond = 20
	directReadsAtOnce    = 50
)

// NewService checks the options; it does not touch the bus.
func NewService(o Options) (*Service, error) {
	if o.Bus == nil || o.Client == nil || o.Reader == nil || o.Authority == nil || o.WorkerName == "" || o.FunctionPrefixIndex == "" {
		return nil, errors.New("guest access options: Bus, Client, Reader, Authority, WorkerName and FunctionPrefixIndex are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{
		Options: o, catalog: catalog{bus: o.Bus, clock: o.Clock}, probes: map[string]*inspection{},
		direct: flowcontrol.NewTokenBucketRateLimiter(directReadsPerSecond, directReadsAtOnce),
	}, nil
}

// internal hides the functions from the engine's lists.
var internal = json.RawMessage(`{"internal":true}`)

// Register adds the functions to the bus client, which publishes them now and on
// every new connection.
func (s *Service) Register() error {
	for _, f := range []bus.Function{
		{ID: s.WorkerName + AuthorizeGuest, Description: "Decide which guest may connect, and what it may call.", Handler: s.authorizeGuest},
		{ID: s.WorkerName + AuthorizeRegistration, Description: "Decide whether a guest may register a function.", Handler: s.authorizeRegistration},
		{ID: s.WorkerName + AuthorizeTrigger, Description: "Decide whether a guest may bind a trigger.", Handler: s.authorizeTrigger},
	} {
		f.Metadata = internal
		if err := s.Bus.RegisterFunction(f); err != nil {
			return fmt.Errorf("registering %s: %w", f.ID, err)
		}
	}
	return nil
}

// own are the ids that only the engine calls.
func (s *Service) own() []string {
	return []string{s.WorkerName + AuthorizeGuest, s.WorkerName + AuthorizeRegistration, s.WorkerName + AuthorizeTrigger}
}
