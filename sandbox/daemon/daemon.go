package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// WorkerName is the name under which the daemon is known on the bus
// (contracts/iii-sandbox.md §1). Give it to the client.
const WorkerName = "iii-sandbox"

const (
	// bootTimeout bounds the wait for a guest that accepts programs (§9).
	bootTimeout = 30 * time.Second
	// stopTimeout bounds the end of one guest.
	stopTimeout = 30 * time.Second
	// uploadIdle is how long an upload may pause (§9).
	uploadIdle = 5 * time.Second
)

// Options configures a Daemon. Client, Backend and Config are required.
type Options struct {
	// Client is the worker's connection; Run runs it.
	Client *bus.Client
	// Backend boots the guests. The daemon does not close it.
	Backend Backend
	Config  Config
	// Logger receives one line a call, without sandbox ids; nil is silent.
	Logger *slog.Logger
}

// Daemon serves the sandbox::* functions. Its state is in memory only: when it
// ends, its sandboxes end.
type Daemon struct {
	client   *bus.Client
	backend  Backend
	config   Config
	logger   *slog.Logger
	registry *registry
	now      func() time.Time

	reapInterval time.Duration
	uploadIdle   time.Duration

	// life bounds the work that must outlast its call: a caller that gives up
	// ends neither a boot nor a program (§3.1, §3.2).
	life    context.Context
	endLife context.CancelFunc
	// pumps are the downloads under way.
	pumps sync.WaitGroup
}

// New registers the functions on the client and returns the daemon, which
// serves once Run is called.
func New(o Options) (*Daemon, error) {
	if o.Client == nil || o.Backend == nil {
		return nil, errors.New("sandbox daemon: Client and Backend are required")
	}
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	d := &Daemon{
		client: o.Client, backend: o.Backend, config: o.Config, logger: o.Logger,
		now: time.Now, reapInterval: reapInterval, uploadIdle: uploadIdle,
	}
	if d.logger == nil {
		d.logger = slog.New(slog.DiscardHandler)
	}
	d.registry = newRegistry(o.Config.MaxConcurrentSandboxes, o.Config.execSlots(), func() time.Time { return d.now() })
	d.life, d.endLife = context.WithCancel(context.Background())
	if err := d.register(); err != nil {
		return nil, err
	}
	return d, nil
}

// register puts every function on the client.
func (d *Daemon) register() error {
	functions := []bus.Function{
		function(d, "sandbox::create", "Boots a sandbox from an image of the catalog.", d.create),
		function(d, "sandbox::exec", "Runs one program in a sandbox and returns its output.", d.exec),
		function(d, "sandbox::stop", "Stops a sandbox and removes everything in it.", d.stop),
		function(d, "sandbox::list", "Lists the sandboxes.", d.list),
		function(d, "sandbox::catalog::list", "Lists the images.", d.catalog),
		function(d, "sandbox::fs::write", "Writes a file of a sandbox atomically.", d.writeFile),
		function(d, "sandbox::fs::read", "Opens a file of a sandbox.", d.readFile),
		function(d, "sandbox::run", "Runs code in a sandbox of its own.", d.runCode),
		function(d, "sandbox::fs::ls", "Lists a folder of a sandbox.", d.listFolder),
		function(d, "sandbox::fs::mkdir", "Makes a folder in a sandbox.", d.makeFolder),
		function(d, "sandbox::fs::rm", "Deletes a path of a sandbox.", d.removeFile),
		function(d, "sandbox::fs::chmod", "Sets mode and owner of paths of a sandbox.", d.changeMode),
		function(d, "sandbox::fs::mv", "Renames a path of a sandbox.", d.moveFile),
		function(d, "sandbox::fs::grep", "Finds lines in files of a sandbox.", d.grepFiles),
		function(d, "sandbox::fs::sed", "Replaces in files of a sandbox.", d.sedFiles),
		function(d, "sandbox::fs::stat", "Describes a path of a sandbox.", d.statFile),
	}
	for _, f := range functions {
		if err := d.client.RegisterFunction(f); err != nil {
			return err
		}
	}
	return nil
}

// Run connects and serves until the context ends (nil) or the bus refuses the
// worker for good. It returns when every sandbox has been stopped. A daemon
// runs once.
func (d *Daemon) Run(ctx context.Context) error {
	stopLife := context.AfterFunc(ctx, d.endLife)
	defer stopLife()
	group, groupCtx := errgroup.WithContext(ctx)
	reaperCtx, endReaper := context.WithCancel(groupCtx)
	group.Go(func() error { d.reap(reaperCtx); return nil })
	group.Go(func() error {
		defer endReaper()
		return d.client.Run(groupCtx)
	})
	err := group.Wait()
	return errors.Join(err, d.shutdown())
}

// shutdown ends every sandbox, the booting ones included.
func (d *Daemon) shutdown() error {
	d.endLife()
	left := d.registry.close()
	failures := make([]error, len(left))
	var stops sync.WaitGroup
	for i, e := range left {
		stops.Go(func() { failures[i] = d.halt(context.Background(), e) })
	}
	stops.Wait()
	d.pumps.Wait()
	return errors.Join(failures...)
}

// halt stops a claimed sandbox and settles its entry.
func (d *Daemon) halt(ctx context.Context, e *entry) error {
	// A removal that was decided is finished even when its caller has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := e.machine.Stop(ctx)
	d.registry.finishStop(e, err)
	return err
}
