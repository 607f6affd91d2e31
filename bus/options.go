package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Defaults of Options (contracts/iii-bus.md §12).
const (
	DefaultMaxConcurrentHandlers = 256
	DefaultCallTimeout           = 30 * time.Second
	DefaultDrainTimeout          = 10 * time.Second
)

// Options configures a Client. Only URL is required.
type Options struct {
	// URL is the engine's worker socket, ws://host:port or wss://host:port. Its
	// query is kept, because a token may travel there (§9.2).
	URL string
	// Name is unique per bus namespace among live workers (§3.1); empty means
	// hostname:pid.
	Name string
	// Description is shown in the engine's list of workers.
	Description string
	// Namespace is the bus namespace that functions land in; empty means default.
	Namespace string
	// Header is sent with the handshake of every socket.
	Header http.Header
	// Reattach is the pair a former process stored; it lets the first connection
	// evict that process's half-dead one (§4.3).
	Reattach ReattachPair
	// MaxConcurrentHandlers bounds the handlers that run at once; a call beyond it
	// is answered CodeCapacity at once.
	MaxConcurrentHandlers int
	// CallTimeout bounds calls whose context has no deadline.
	CallTimeout time.Duration
	// DrainTimeout bounds how long Run waits for running handlers at its end.
	DrainTimeout time.Duration
	// RetryNameConflict makes a taken name an event that is retried with backoff
	// instead of the end of Run.
	RetryNameConflict bool
	// Permit says whether this process may be the worker now; nil always permits.
	// While it does not, nothing is taken from the engine, sent to it or called, and
	// there is no connection. It is asked often and must return at once.
	Permit func() bool
	// Backoff spaces the attempts to connect.
	Backoff Backoff
	// Logger receives what an operator of this process should see; nil is silent.
	Logger *slog.Logger

	timers timers
}

// timers are the fixed limits of a connection; tests shorten them.
type timers struct {
	// handshake bounds the upgrade, and then the engine's welcome.
	handshake time.Duration
	// ping is the distance of WebSocket pings.
	ping time.Duration
	// silence is how long nothing at all may arrive before the connection counts
	// as dead.
	silence time.Duration
	// farewell bounds each step of parting: close handshakes, cancelled handlers,
	// the last events.
	farewell time.Duration
	// binding bounds a trigger type's answer to a new binding.
	binding time.Duration
}

var defaultTimers = timers{
	handshake: 10 * time.Second,
	ping:      20 * time.Second,
	silence:   60 * time.Second,
	farewell:  2 * time.Second,
	binding:   10 * time.Second,
}

// ReattachPair names a worker's connection and proves that it was ours. The
// token is a secret: printing, logging and JSON leave it out.
type ReattachPair struct {
	WorkerID string
	Token    string `json:"-"`
}

// String hides the token.
func (p ReattachPair) String() string {
	if p == (ReattachPair{}) {
		return "no reattach pair"
	}
	return "reattach pair (redacted)"
}

// GoString hides the token.
func (p ReattachPair) GoString() string { return p.String() }

// LogValue hides the token.
func (p ReattachPair) LogValue() slog.Value { return slog.StringValue(p.String()) }

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = defaultName()
	}
	if o.Namespace == "" {
		o.Namespace = protocol.DefaultNamespace
	}
	if o.MaxConcurrentHandlers == 0 {
		o.MaxConcurrentHandlers = DefaultMaxConcurrentHandlers
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	if o.Permit == nil {
		o.Permit = func() bool { return true }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.timers == (timers{}) {
		o.timers = defaultTimers
	}
	o.Backoff = o.Backoff.withDefaults()
	return o
}

func (o Options) validate() error {
	switch {
	case strings.TrimSpace(o.Name) == "":
		return errors.New("bus options: Name is blank")
	case strings.TrimSpace(o.Namespace) == "":
		return errors.New("bus options: Namespace is blank")
	case o.MaxConcurrentHandlers < 0:
		return errors.New("bus options: MaxConcurrentHandlers is negative")
	case o.CallTimeout < 0, o.DrainTimeout < 0:
		return errors.New("bus options: a timeout is negative")
	}
	return o.Backoff.validate()
}

// parseURL never repeats the URL in its errors, because the query may hold a
// token.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("bus options: URL does not parse")
	}
	if u.Scheme != "ws" && u.Scheme != "wss" {
		return nil, fmt.Errorf("bus options: URL has scheme %q, want ws or wss", u.Scheme)
	}
	if u.Host == "" {
		return nil, errors.New("bus options: URL has no host")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
