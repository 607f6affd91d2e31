// Package engine is an embedded iii engine for development and tests: it
// speaks the wire contract of contracts/iii-bus.md, so that published SDK
// clients and our own worker client cannot tell it from the real one in what
// it covers. It keeps everything in memory.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Defaults of Config (contracts/iii-bus.md §12).
const (
	DefaultAddress        = "127.0.0.1:49134"
	DefaultNamespaceGrace = 5 * time.Second
	DefaultWriteTimeout   = 10 * time.Second
	DefaultHTTPTimeout    = 30 * time.Second
	DefaultFunctionsPoll  = 5 * time.Second
)

// MaxMessageBytes bounds one inbound message (contracts/iii-bus.md §1.3).
const MaxMessageBytes = 64 << 20

// Config says where an Engine listens and how patient it is. The zero value
// listens for workers on DefaultAddress and has no HTTP port.
type Config struct {
	// Listeners are the worker ports. None means one on DefaultAddress.
	Listeners []Listener
	// HTTPAddress is the port of http triggers. Empty means no such port; http
	// triggers then wait as those of any type without a provider do.
	HTTPAddress string
	// NamespaceGrace is how long a connection's registrations wait for its
	// metadata (§3.2).
	NamespaceGrace time.Duration
	// WriteTimeout is how long one frame may take to leave before its receiver
	// counts as stuck and is dropped.
	WriteTimeout time.Duration
	// HTTPTimeout bounds the start of an answer to an HTTP request (§6.5).
	HTTPTimeout time.Duration
	// FunctionsPoll is how often the set of functions is compared, for
	// engine::functions-available.
	FunctionsPoll time.Duration
	// DisableQueue leaves the queue to a worker, as with an engine that has no
	// queue of its own (§5.4).
	DisableQueue bool
	// Queues are the policies of queues and topics, by name.
	Queues map[string]QueuePolicy
	// Logger gets what operators should see; nil discards it.
	Logger *slog.Logger
}

// Listener is one worker port.
type Listener struct {
	// Name identifies it in URL and logs; unique in a Config.
	Name string
	// Address is host:port; port 0 takes a free one.
	Address string
	// HandshakeTimeout is the deadline for the head of a request; 0 means 10 s
	// (contracts/iii-bus.md §1.1).
	HandshakeTimeout time.Duration
	// MiddlewareFunctionID is a function in default that gets every call of this
	// listener's workers and calls the function itself (§9.4); empty means none.
	MiddlewareFunctionID string
	// Policy restricts who connects here and what they may do; nil trusts
	// everybody (§9.1).
	Policy *Policy
}

// Engine routes calls between workers and fires their triggers.
type Engine struct {
	config   Config
	log      *slog.Logger
	registry *registry
	channels *channels
	routes   *routes
	state    *stateValues
	// queues is nil with Config.DisableQueue.
	queues *queues

	stateWatchers    *stateWatchers
	subscribers      *topics
	workerWatchers   *topics
	functionWatchers *topics

	ctx       context.Context
	cancel    context.CancelFunc
	tasks     tasks
	listeners []*listener
	http      *listener
	closeOnce sync.Once
}

// New checks the configuration; nothing listens before Start.
func New(config Config) (*Engine, error) {
	withDefaults(&config)
	names := map[string]bool{}
	for _, l := range config.Listeners {
		if names[l.Name] {
			return nil, fmt.Errorf("two listeners are named %q", l.Name)
		}
		names[l.Name] = true
		if err := l.Policy.validate(); err != nil {
			return nil, fmt.Errorf("listener %q: %w", l.Name, err)
		}
	}
	for name, policy := range config.Queues {
		if err := policy.validate(); err != nil {
			return nil, fmt.Errorf("queue %q: %w", name, err)
		}
	}
	e := &Engine{
		config:   config,
		log:      config.Logger,
		registry: newRegistry(config.Logger),
		channels: newChannels(),
		routes:   newRoutes(),
		state:    newStateValues(),
	}
	if !config.DisableQueue {
		e.queues = newQueues(e, config.Queues)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.addBuiltinFunctions()
	e.addBuiltinTriggerTypes()
	return e, nil
}

func withDefaults(c *Config) {
	if len(c.Listeners) == 0 {
		c.Listeners = []Listener{{Name: "workers", Address: DefaultAddress}}
	}
	if c.NamespaceGrace <= 0 {
		c.NamespaceGrace = DefaultNamespaceGrace
	}
	if c.WriteTimeout <= 0 {
		c.WriteTimeout = DefaultWriteTimeout
	}
	if c.HTTPTimeout <= 0 {
		c.HTTPTimeout = DefaultHTTPTimeout
	}
	if c.FunctionsPoll <= 0 {
		c.FunctionsPoll = DefaultFunctionsPoll
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Start opens every port and serves in the background until Close. The context
// bounds only the opening. After an error nothing is left listening.
func (e *Engine) Start(ctx context.Context) error {
	for _, l := range e.config.Listeners {
		opened, err := e.listen(ctx, l, e.workerHandler(l))
		if err != nil {
			return errors.Join(fmt.Errorf("listener %q: %w", l.Name, err), e.Close(ctx))
		}
		e.listeners = append(e.listeners, opened)
	}
	if e.config.HTTPAddress != "" {
		opened, err := e.listen(ctx, Listener{Name: "http", Address: e.config.HTTPAddress}, e.httpHandler())
		if err != nil {
			return errors.Join(fmt.Errorf("http listener: %w", err), e.Close(ctx))
		}
		e.http = opened
	}
	e.tasks.start(e.sweepChannels)
	e.tasks.start(e.watchFunctions)
	return nil
}

// URL is the worker URL of a listener, "" for an unknown one. It is known once
// Start has returned.
func (e *Engine) URL(name string) string {
	for _, l := range e.listeners {
		if l.name == name {
			return "ws://" + l.address()
		}
	}
	return ""
}

// HTTPURL is the base URL of http triggers, "" without an HTTP port. It is
// known once Start has returned.
func (e *Engine) HTTPURL() string {
	if e.http == nil {
		return ""
	}
	return "http://" + e.http.address()
}

// Close ends all connections and ports and waits for everything the engine
// runs. It returns the context's error if that takes too long. Workers see
// their connection drop without a Close frame, as with the real engine (§4.2).
func (e *Engine) Close(ctx context.Context) error {
	e.closeOnce.Do(func() {
		e.tasks.refuse()
		e.cancel()
		for _, l := range append(e.listeners, e.http) {
			if l != nil {
				l.close()
			}
		}
	})
	return e.tasks.wait(ctx)
}
