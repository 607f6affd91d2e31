// Package controllers assembles the parts of the operator that act on the
// leader: the reconcilers, the sweep, the watcher of the fleet, the bus client
// and the shim.
package controllers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/bus/shim"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/identity"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/controllers/orphans"
	"github.com/sandbox-operator/sandbox-operator/controllers/sandboxfunction"
	"github.com/sandbox-operator/sandbox-operator/controllers/sandboxrun"
	"github.com/sandbox-operator/sandbox-operator/controllers/sandboxruntime"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/runner/link"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/capacity"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
	"github.com/sandbox-operator/sandbox-operator/sandbox/iii"
)

// Options configures an Operator. All fields are required unless they say
// otherwise.
type Options struct {
	// BusURL is the iii engine, GuestBusURL the listener that guests are given.
	BusURL, GuestBusURL string
	// RequireBusIsolation refuses bus access unless that listener has been seen to
	// keep guests apart.
	RequireBusIsolation bool
	// MayLead says that no other replica can lead; without it the operator keeps off
	// the bus. Nil stands for the only replica.
	MayLead func() bool
	// WorkerName is this worker's name on the bus.
	WorkerName string
	// RunsNamespace is where the objects of bus callers live.
	RunsNamespace string
	// WatchNamespaces are the namespaces that the operator may read in,
	// RunsNamespace among them; empty stands for all.
	WatchNamespaces []string
	// OperatorNamespace is where the operator's identity and bus session live.
	OperatorNamespace string
	// DefaultTimeout and MaxTimeout bound calls and runs.
	DefaultTimeout, MaxTimeout time.Duration
	// WarmGuests lets guests keep processes ready for the calls of functions.
	WarmGuests bool
	// CallLinks lets calls that use those go over links, where guests have the bus.
	CallLinks bool
	// IdleTimeout is the idle time of runtimes that name none.
	IdleTimeout time.Duration
	// InjectGuidance, OpenCapabilities and AllowForceTeardown are those of
	// shim.Options.
	InjectGuidance, OpenCapabilities, AllowForceTeardown bool
	// AllowSharedPrefixes lets functions of several namespaces have one id prefix.
	AllowSharedPrefixes bool
	// Provider is the back end; nil stands for the daemon on the bus.
	Provider sandbox.Provider
	// Metrics takes the operator's own metrics; nil stands for the registry of the
	// manager's metrics endpoint.
	Metrics prometheus.Registerer
}

// Operator is everything that acts once this process is the leader.
type Operator struct {
	bus       *bus.Client
	store     *identity.Store
	fleet     *fleet.Watcher
	runtimes  *sandboxruntime.Reconciler
	functions *sandboxfunction.Reconciler
	runs      *sandboxrun.Reconciler
	sweeper   *orphans.Sweeper
	shim      *shim.Shim
	guestBus  *guestaccess.Access
	guests    *guestaccess.Service
	prober    *guestaccess.Prober
	links     *link.Set
}

// New builds the parts and ties them together. It reads the operator's
// identity, and so needs the API server, for which it waits a while, but not yet
// the bus.
func New(ctx context.Context, mgr ctrl.Manager, o Options) (*Operator, error) {
	program, err := guest.Program()
	if err != nil {
		return nil, err
	}
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return nil, err
	}
	store := identity.NewStore(direct, o.OperatorNamespace)
	var operatorID string
	var guestKey []byte
	err = withAPI(ctx, func(ctx context.Context) (err error) {
		if operatorID, err = store.OperatorID(ctx); err != nil {
			return err
		}
		guestKey, err = store.GuestKey(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	busClient, err := bus.New(bus.Options{
		URL: o.BusURL, Name: o.WorkerName, RetryNameConflict: true,
		Description: "Runs code in sandboxes and publishes functions that live in them.",
		Permit:      o.MayLead,
		Logger:      logger("bus"),
	})
	if err != nil {
		return nil, err
	}
	op := &Operator{bus: busClient, store: store}
	err = op.build(mgr, o, program, operatorID, guestKey)
	return op, err
}

// parts are what several of the operator's members work with.
type parts struct {
	Options
	clock      clock.WithTicker
	provider   *capacity.Broker
	runner     *runner.Runner
	table      *publish.Table
	server     *publish.Server
	results    *sandboxrun.Results
	registry   prometheus.Registerer
	operatorID string
	digestKey  []byte
	guestBus   *guestaccess.Access
}

func (op *Operator) build(mgr ctrl.Manager, o Options, program guest.AgentProgram, operatorID string, guestKey []byte) error {
	p, err := op.newParts(o, program, operatorID)
	if err != nil {
		return err
	}
	if err := op.newGuestAccess(mgr, o, guestKey); err != nil {
		return err
	}
	p.guestBus, p.digestKey = op.guestBus, derivedKey(guestKey, "digests of templates")
	op.fleet = fleet.NewWatcher(p.provider, operatorID, fleet.DefaultInterval, nil)
	op.runtimes = op.newRuntimes(mgr, p)
	p.provider.SetDisplacer(op.runtimes)
	op.functions = op.newFunctions(mgr, p)
	op.runs = op.newRuns(mgr, p)
	op.sweeper = &orphans.Sweeper{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Provider: p.provider, Fleet: op.fleet, Clock: p.clock,
		Namespaces: o.WatchNamespaces, Destroyed: orphans.NewDestroyedCounter(p.registry),
		Held: func(runtime *sandboxv1alpha1.SandboxRuntime) []sandbox.ID { return held(p.table, runtime) },
	}
	p.table.SetHooks(publish.Hooks{
		Wake:  op.runtimes.WakeRuntime,
		Lost:  op.runtimes.MarkLost,
		Added: func(r publish.Runtime) { op.functions.WakeRuntime(context.Background(), r) },
	})
	op.shim, err = shim.New(shim.Options{
		Bus: op.bus, Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: o.RunsNamespace,
		WorkerName: o.WorkerName, DefaultTimeout: o.DefaultTimeout, MaxTimeout: o.MaxTimeout,
		IdleTimeout: o.IdleTimeout, Results: p.results, Clock: p.clock, Logger: logger("shim"),
		Fleet: op.fleet, FunctionIDIndex: index.FunctionByID, FunctionPrefixIndex: index.FunctionByPrefix,
		FunctionRuntimeIndex: index.FunctionByRuntime, InjectGuidance: o.InjectGuidance,
		OpenCapabilities: o.OpenCapabilities, AllowForceTeardown: o.AllowForceTeardown,
		Programs: programs{table: p.table, workers: p.server.Workers},
	})
	return err
}

func (op *Operator) newParts(o Options, program guest.AgentProgram, operatorID string) (parts, error) {
	p := parts{Options: o, clock: clock.RealClock{}, registry: o.Metrics, operatorID: operatorID}
	if p.registry == nil {
		p.registry = metrics.Registry
	}
	backEnd := o.Provider
	if backEnd == nil {
		backEnd = iii.New(iii.Options{Client: op.bus})
	}
	p.provider = capacity.New(backEnd, capacity.NewMetrics(p.registry))
	callMetrics, err := publish.NewMetrics(p.registry)
	if err != nil {
		return p, err
	}
	p.runner = runner.New(p.provider, program)
	p.runner.Warm = o.WarmGuests
	op.links = op.newLinks(p, program)
	p.runner.Links = op.links
	if p.runner.Metrics, err = runner.NewMetrics(p.registry, op.links); err != nil {
		return p, err
	}
	p.table = publish.NewTable(p.clock, publish.Hooks{})
	p.server = &publish.Server{
		Table: p.table, Guest: p.runner, WorkerName: o.WorkerName, Logger: logger("publish"), Metrics: callMetrics,
		Workers: publish.NewWorkers(op.bus),
	}
	p.results = sandboxrun.NewResults(p.clock)
	return p, nil
}

// programs are those in slots of the table.
type programs struct {
	table   *publish.Table
	workers *publish.Workers
}

// Inside implements shim.Programs.
func (p programs) Inside(ctx context.Context, worker string, runtime *sandboxv1alpha1.SandboxRuntime) bool {
	return p.table.Inside(ctx, inTable(runtime), p.workers.CallerOf(ctx, func() string { return worker }))
}

// inTable is what the table calls a runtime.
func inTable(runtime *sandboxv1alpha1.SandboxRuntime) publish.Runtime {
	return publish.Runtime{Namespace: runtime.Namespace, Name: runtime.Name, UID: string(runtime.UID)}
}

// held are the sandboxes of a runtime that take calls.
func held(table *publish.Table, runtime *sandboxv1alpha1.SandboxRuntime) []sandbox.ID {
	var ids []sandbox.ID
	for _, i := range table.Instances(inTable(runtime)) {
		ids = append(ids, i.ID)
	}
	return ids
}

// derivedKey makes a key for one purpose from the installation's key.
func derivedKey(key []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

func (op *Operator) newRuntimes(mgr ctrl.Manager, p parts) *sandboxruntime.Reconciler {
	return sandboxruntime.New(sandboxruntime.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Provider: p.provider, Runner: p.runner, Fleet: op.fleet,
		Table: p.table, Recorder: mgr.GetEventRecorder("sandboxruntime"), Clock: p.clock,
		OperatorID: p.operatorID, GuestBus: p.guestBus, IdleTimeout: p.IdleTimeout, DigestKey: p.digestKey,
		Metrics: sandboxruntime.NewMetrics(p.registry),
	})
}

func (op *Operator) newFunctions(mgr ctrl.Manager, p parts) *sandboxfunction.Reconciler {
	return sandboxfunction.New(sandboxfunction.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Runner: p.runner, Table: p.table,
		Publisher: publish.NewPublisher(op.bus, p.server, p.WorkerName),
		Recorder:  mgr.GetEventRecorder("sandboxfunction"), Clock: p.clock,
		WorkerName: p.WorkerName, DefaultTimeout: p.DefaultTimeout, AllowSharedPrefixes: p.AllowSharedPrefixes,
		DaemonAnswers: func() bool { return op.fleet.Snapshot().Available }, Lost: op.runtimes.MarkLost,
	})
}

func (op *Operator) newRuns(mgr ctrl.Manager, p parts) *sandboxrun.Reconciler {
	return sandboxrun.New(sandboxrun.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Provider: p.provider, Runner: p.runner, Fleet: op.fleet,
		Table: p.table, Results: p.results, Recorder: mgr.GetEventRecorder("sandboxrun"), Clock: p.clock,
		OperatorID: p.operatorID, GuestBus: p.guestBus, WorkerName: p.WorkerName, DefaultTimeout: p.DefaultTimeout,
		Metrics: sandboxrun.NewMetrics(p.registry),
	})
}

// Register hands the parts to the manager, which starts them once this process
// is the leader.
func (op *Operator) Register(ctx context.Context, mgr ctrl.Manager) error {
	if err := index.Register(ctx, patientIndexer{mgr.GetFieldIndexer()}); err != nil {
		return err
	}
	op.bus.Subscribe(func(e bus.Event) { op.onBusEvent(ctx, e) })
	op.fleet.Subscribe(func(change fleet.Change) {
		op.runtimes.HandleFleet(ctx, change)
		op.functions.HandleFleet(ctx, change)
		op.runs.HandleFleet(ctx, change)
		if change.AvailabilityChanged {
			op.prober.Poke() // Another daemon may have other functions.
		}
	})
	return errors.Join(
		op.shim.Register(),
		op.guests.Register(),
		op.runtimes.SetupWithManager(mgr),
		op.functions.SetupWithManager(mgr),
		op.runs.SetupWithManager(mgr),
		mgr.Add(op.sweeper),
		mgr.Add(manager.RunnableFunc(op.fleet.Run)),
		mgr.Add(manager.RunnableFunc(op.prober.Run)),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return op.shim.Watch(ctx, mgr.GetCache()) })),
		mgr.Add(manager.RunnableFunc(op.runBus)),
	)
}

// runBus connects with the pair that the last leader stored, so that the engine
// ends that leader's connection instead of refusing ours.
func (op *Operator) runBus(ctx context.Context) error {
	var pair bus.ReattachPair
	err := withAPI(ctx, func(ctx context.Context) (err error) {
		pair, err = op.store.Session(ctx)
		return err
	})
	if err != nil {
		return err
	}
	op.bus.SetReattach(pair)
	// What is under way needs the bus to clean up after itself, so the bus ends
	// last.
	busCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		defer cancel()
		if err := op.finish(context.WithoutCancel(ctx)); err != nil {
			ctrl.Log.WithName("bus").Error(err, "The operator ends with operations under way")
		}
	})()
	err = op.bus.Run(busCtx)
	op.closeLinks()
	// Calls that ended with the bus have left objects to delete.
	drainCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer stop()
	return errors.Join(err, op.shim.Drain(drainCtx))
}

const (
	// finishTimeout bounds the end of everything that uses the bus. With the bus's
	// own end and drainTimeout it stays below the manager's grace of 50 s.
	finishTimeout = 34 * time.Second
	// drainTimeout bounds what is deleted after that.
	drainTimeout = 4 * time.Second
	// saveTimeout bounds the storing of the bus session.
	saveTimeout = 10 * time.Second
)

func (op *Operator) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	op.shim.Close()
	return errors.Join(op.runs.Close(ctx), op.functions.Close(ctx), op.runtimes.Close(ctx))
}

func (op *Operator) onBusEvent(ctx context.Context, e bus.Event) {
	log := ctrl.Log.WithName("bus")
	switch e.Kind {
	case bus.Connected:
		log.Info("Connected to the iii engine")
		op.fleet.Poke()
		op.prober.Poke()
		// Later, since an API server that does not answer must not keep the functions
		// off the bus.
		defer op.saveSession(ctx)
	case bus.Disconnected:
		log.Info("Disconnected from the iii engine")
		op.fleet.Poke()
		op.guestBus.Doubt() // The next one may have other listeners.
	case bus.WorkerRejected:
		log.Error(e.Err, "The engine refused this worker; it is tried again")
	}
	op.functions.HandleBusEvent(ctx, e)
}

func (op *Operator) saveSession(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := op.store.SaveSession(bounded, op.bus.Reattach()); err != nil && ctx.Err() == nil {
		ctrl.Log.WithName("bus").Error(err, "Storing the bus session; the next leader has to wait for this connection to end")
	}
}

func logger(name string) *slog.Logger {
	return slog.New(logr.ToSlogHandler(ctrl.Log.WithName(name)))
}
