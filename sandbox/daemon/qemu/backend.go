package qemu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestnet"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/launch"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// Options configure a Backend.
type Options struct {
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Root is where QEMU, the kernel and mkfs.erofs were installed or unpacked;
	// empty means "/".
	Root string
	// Cache is a folder for images and saved states, several GiB; empty means
	// sandbox-operator/machines in the user's cache.
	Cache string
	// Anew boots every machine from its kernel's start, without saved states.
	Anew bool
	// MaxProcesses bounds the processes and threads of one guest; 0 means 512.
	MaxProcesses int
}

const (
	defaultMaxProcesses = 512
	// probeTime is how long a machine may take to boot with hardware
	// virtualization before it counts as broken. Some devices answer every
	// question and never boot.
	probeTime = 3 * time.Second
)

// Backend boots guests in virtual machines.
type Backend struct {
	logger       *slog.Logger
	maxProcesses int
	anew         bool
	plan         namespaces.RootPlan
	available    map[string]bool
	programs     programs
	cache        cache
	launcher     *launch.Launcher
	users        *users
	dial         guestnet.Dial
	nameserver   string
	// closing counts the networks whose teardown still runs, and the states that are
	// being saved; life ends the latter.
	closing sync.WaitGroup
	life    context.Context
	endLife context.CancelFunc
	// together is set where QEMU may not have namespaces of its own.
	together atomic.Bool

	// mu guards preparing; what it makes does not change afterwards.
	mu          sync.Mutex
	ready       bool
	accelerator accelerator
	runtime     string
	digest      string
	usr         *os.File
}

var _ daemon.PatientBackend = (*Backend)(nil)

// New looks for the programs that it needs, and says which Debian packages have
// those that are missing. It starts no machine; SelfTest does.
func New(options Options) (*Backend, error) {
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	if options.Root == "" {
		options.Root = "/"
	}
	if options.MaxProcesses == 0 {
		options.MaxProcesses = defaultMaxProcesses
	}
	if options.MaxProcesses < 0 {
		return nil, errors.New("bounds of a guest must not be negative")
	}
	found, err := findPrograms(options.Root)
	if err != nil {
		return nil, err
	}
	folder, err := newCache(options.Cache)
	if err != nil {
		return nil, err
	}
	plan, available := namespaces.PlanRoot(context.Background())
	b := &Backend{
		logger: options.Logger, maxProcesses: options.MaxProcesses, anew: options.Anew, plan: plan, available: available,
		programs: found, cache: folder, launcher: launch.New(), users: newUsers(),
		dial: (&net.Dialer{}).DialContext, nameserver: guestnet.HostNameserver(),
	}
	b.life, b.endLife = context.WithCancel(context.Background())
	return b, nil
}

const (
	bootTimeout = 30 * time.Second
	// emulatedBootTimeout is longer, for the first guest of a size: its machine boots
	// from the kernel's start.
	emulatedBootTimeout = 2 * time.Minute
)

// BootTimeout implements daemon.PatientBackend.
func (b *Backend) BootTimeout() time.Duration {
	if b.Isolation() == isolation(hardware) {
		return bootTimeout
	}
	return emulatedBootTimeout
}

// CheckImage refuses what has no files here: the presets are made of the host's
// interpreters, and nothing is pulled.
func (b *Backend) CheckImage(name string) error { return namespaces.CheckPreset(name, b.available) }

// prepare makes, once, what every machine needs, and finds out how machines run
// here.
func (b *Backend) prepare(ctx context.Context) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ready {
		return nil
	}
	if b.runtime, err = b.makeRuntime(ctx); err != nil {
		return fmt.Errorf("preparing machines: %w", err)
	}
	if b.usr == nil {
		if b.usr, err = b.usrImage(ctx); err != nil {
			return fmt.Errorf("preparing machines: %w", err)
		}
	}
	b.accelerator = b.probe(ctx)
	b.ready = true
	return nil
}

// probe boots a machine with hardware virtualization, which nothing less proves.
func (b *Backend) probe(ctx context.Context) accelerator {
	device, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if err != nil {
		return emulation
	}
	_ = device.Close()
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	parts, err := b.partsImage(ctx, nil)
	if err == nil {
		defer parts.Close()
		var p *process
		p, err = b.startAnew(ctx, shape{accelerator: hardware, cpus: 1, memoryMiB: 128, images: []*os.File{b.usr, parts}})
		if err == nil {
			p.kill()
			<-p.ended
			return hardware
		}
	}
	b.logger.Warn("The machine has "+kvmDevice+", but nothing boots with it: guests run on an emulated processor", "error", err)
	return emulation
}

// Close ends the thread that starts machines; no guest may be left.
func (b *Backend) Close() error {
	b.endLife()
	b.closing.Wait()
	b.launcher.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = false
	if b.usr == nil {
		return nil
	}
	file := b.usr
	b.usr = nil
	return file.Close()
}
