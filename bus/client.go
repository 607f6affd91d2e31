package bus

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Client is a worker on the bus. All methods may be called concurrently, before,
// during and after Run.
type Client struct {
	options  Options
	url      *url.URL
	log      *slog.Logger
	registry *registry
	// slots are the handlers that may run at once, over all connections.
	slots *semaphore.Weighted
	// events and bindings call user code outside the reader, in order.
	events, bindings *serial
	// bound are the live bindings of our trigger types; only functions run by
	// bindings touch it.
	bound   map[string]boundTrigger
	running atomic.Bool

	mu          sync.Mutex
	subscribers []func(Event)
	current     *session
	pair        ReattachPair
	rejected    *RejectedError
	changed     chan struct{}
}

// New checks the options and makes a client that is not connected.
func New(options Options) (*Client, error) {
	u, err := parseURL(options.URL)
	if err != nil {
		return nil, err
	}
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	return &Client{
		options:  options,
		url:      u,
		log:      options.Logger,
		registry: newRegistry(),
		slots:    semaphore.NewWeighted(int64(options.MaxConcurrentHandlers)),
		events:   newSerial(),
		bindings: newSerial(),
		bound:    map[string]boundTrigger{},
		pair:     options.Reattach,
		changed:  make(chan struct{}),
	}, nil
}

// Connected reports whether the engine has accepted this worker on the present
// connection.
func (c *Client) Connected() bool { return c.session() != nil }

// WorkerID is the engine's id of the present connection; empty while there is
// none.
func (c *Client) WorkerID() string {
	if s := c.session(); s != nil {
		return s.identity().WorkerID
	}
	return ""
}

// Reattach is the pair to store, so that a next process can evict this one's
// connection. It changes with every connection the engine accepts; a connection
// whose name was refused does not change it.
func (c *Client) Reattach() ReattachPair {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair
}

// SetReattach gives the pair that another process stored, as
// Options.Reattach does, for a pair that is read only after New. It counts from
// the next connection on.
func (c *Client) SetReattach(pair ReattachPair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pair = pair
}

// WaitConnected returns once the client is connected, or with the context's
// error, or with the *RejectedError that ended Run.
func (c *Client) WaitConnected(ctx context.Context) error {
	for {
		c.mu.Lock()
		current, rejected, changed := c.current, c.rejected, c.changed
		c.mu.Unlock()
		switch {
		case current != nil:
			return nil
		case rejected != nil:
			return rejected
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// session is the present connection, nil if there is none or none is permitted.
func (c *Client) session() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && !c.current.permitted() {
		return nil
	}
	return c.current
}

// update changes what WaitConnected looks at and wakes it.
func (c *Client) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}
