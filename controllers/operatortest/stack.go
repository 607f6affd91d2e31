// Package operatortest runs a whole Operator for the suites of the controllers:
// a real API server, engine and bus, and the in-memory back end with a guest that
// speaks the agent's frames.
package operatortest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/controllers"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// stopTimeout bounds the end of one part of a Stack.
const stopTimeout = 60 * time.Second

// DefaultTimeout bounds calls and runs that name none.
const DefaultTimeout = 5 * time.Second

// Options vary a Stack.
type Options struct {
	// WorkerName is the operator's name on the bus; empty is that of the original.
	WorkerName string
	// TwoNamespaces lets the operator watch another namespace too, Stack.Other.
	TwoNamespaces bool
	// AllowSharedPrefixes is that of controllers.Options.
	AllowSharedPrefixes bool
}

// Stack is one operator in a namespace of its own, with everything around it.
// Objects of other namespaces do not exist for it.
type Stack struct {
	// Client reads and writes past the operator's cache.
	Client    client.Client
	Namespace string
	// Other is empty without Options.TwoNamespaces.
	Other    string
	Provider *fake.Provider
	Guest    *Guest

	environment *testenv.Environment
	options     Options
	engine      *engine.Engine
	address     string
	operator    *process
	peers       []*process
}

// process is something that runs until it is cancelled.
type process struct {
	cancel context.CancelFunc
	done   chan error
}

func start(run func(context.Context) error) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{cancel: cancel, done: make(chan error, 1)}
	go func() { p.done <- run(ctx) }()
	return p
}

func (p *process) stop(name string) error {
	p.cancel()
	select {
	case err := <-p.done:
		return err
	case <-time.After(stopTimeout):
		return fmt.Errorf("%s did not end in time", name)
	}
}

// Start brings a Stack up. The caller calls Stop, unless Start failed: then
// nothing is left running.
func Start(ctx context.Context, environment *testenv.Environment, options Options) (*Stack, error) {
	if options.WorkerName == "" {
		options.WorkerName = "sandbox-code-runner"
	}
	namespace, err := environment.NewNamespace(ctx)
	if err != nil {
		return nil, err
	}
	other := ""
	if options.TwoNamespaces {
		if other, err = environment.NewNamespace(ctx); err != nil {
			return nil, err
		}
	}
	provider := fake.New()
	s := &Stack{
		Client: environment.Client, Namespace: namespace, Other: other, Provider: provider, Guest: NewGuest(provider),
		environment: environment, options: options, address: "127.0.0.1:0",
	}
	s.Provider.OnExec(s.Guest.Exec)
	if err := s.StartEngine(ctx); err != nil {
		return nil, err
	}
	if err := s.StartOperator(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// StartEngine starts an engine that knows nothing, on the address of the former
// one.
func (s *Stack) StartEngine(ctx context.Context) error {
	e, err := engine.New(engine.Config{
		Listeners:   []engine.Listener{{Name: "workers", Address: s.address}},
		HTTPAddress: "127.0.0.1:0",
	})
	if err != nil {
		return err
	}
	if err := e.Start(ctx); err != nil {
		return err
	}
	s.engine, s.address = e, strings.TrimPrefix(e.URL("workers"), "ws://")
	return nil
}

// StopEngine ends the engine; the operator goes on without it.
func (s *Stack) StopEngine() error {
	if s.engine == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := s.engine.Close(ctx)
	s.engine = nil
	return err
}

// BusURL is where workers connect.
func (s *Stack) BusURL() string { return "ws://" + s.address }

// HTTPURL is where http triggers answer.
func (s *Stack) HTTPURL() string { return s.engine.HTTPURL() }

// StartOperator starts the operator, the first time or again.
func (s *Stack) StartOperator(ctx context.Context) error {
	mgr, err := s.newManager()
	if err != nil {
		return err
	}
	op, err := controllers.New(ctx, mgr, controllers.Options{
		BusURL: s.BusURL(), GuestBusURL: s.BusURL(), WorkerName: s.options.WorkerName,
		RunsNamespace: s.Namespace, OperatorNamespace: s.Namespace,
		DefaultTimeout: DefaultTimeout, MaxTimeout: 30 * time.Second, IdleTimeout: 900 * time.Second,
		AllowSharedPrefixes: s.options.AllowSharedPrefixes,
		Provider:            s.Provider, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	registered := make(chan error, 1)
	p := start(func(ctx context.Context) error {
		err := op.Register(ctx, mgr)
		registered <- err
		if err != nil {
			return err
		}
		return mgr.Start(ctx)
	})
	if err := <-registered; err != nil {
		p.cancel()
		return err
	}
	s.operator = p
	return nil
}

func (s *Stack) newManager() (ctrl.Manager, error) {
	grace := stopTimeout
	watched := map[string]cache.Config{s.Namespace: {}}
	if s.Other != "" {
		watched[s.Other] = cache.Config{}
	}
	return ctrl.NewManager(s.environment.Config, ctrl.Options{
		Scheme:                  s.environment.Scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: &grace,
		// The names of controllers are unique per process otherwise.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache:      cache.Options{DefaultNamespaces: watched, DefaultTransform: controllers.SlimCache},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
		}},
	})
}

// StopOperator ends the operator as a shutdown does. Sandboxes stay.
func (s *Stack) StopOperator() error {
	if s.operator == nil {
		return nil
	}
	err := s.operator.stop("the operator")
	s.operator = nil
	return err
}

// Peer connects another worker to the bus. It leaves with Stop, or when the
// returned function is called.
func (s *Stack) Peer(ctx context.Context, name string) (peer *bus.Client, leave func() error, err error) {
	peer, err = bus.New(bus.Options{URL: s.BusURL(), Name: name})
	if err != nil {
		return nil, nil, err
	}
	p := start(peer.Run)
	s.peers = append(s.peers, p)
	leave = func() error {
		s.forgetPeer(p)
		return p.stop("peer " + name)
	}
	if err := peer.WaitConnected(ctx); err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	return peer, leave, nil
}

func (s *Stack) forgetPeer(gone *process) {
	for i, p := range s.peers {
		if p == gone {
			s.peers = append(s.peers[:i], s.peers[i+1:]...)
			return
		}
	}
}

// Stop ends everything.
func (s *Stack) Stop() error {
	errs := []error{s.StopOperator()}
	for _, p := range s.peers {
		errs = append(errs, p.stop("a peer"))
	}
	s.peers = nil
	return errors.Join(append(errs, s.StopEngine())...)
}
