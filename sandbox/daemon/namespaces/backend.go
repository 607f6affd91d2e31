package namespaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestnet"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/launch"
)

// Options configure a Backend.
type Options struct {
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// MaxProcesses bounds the processes and threads of one guest; 0 means 512.
	MaxProcesses int
	// DiskMiB bounds all that a guest can write; 0 means half of its memory,
	// which it is part of.
	DiskMiB int
	// Root is what guests see of the host and Available the images that can be
	// made of it; nil Available means PlanRoot's.
	Root      RootPlan
	Available map[string]bool
	// Layer is for a back end that has one guest only; nil has each guest's agent
	// make its own.
	Layer *Layer
	// Carry takes over the packets of a guest's device, and reaches the ports of
	// the host's loopback for it; nil means a stack of the back end's own.
	Carry func(device io.ReadWriteCloser, ports []int) (NetworkEnd, error)
	// Spare keeps one agent ready for the next guest, from the first boot on, at
	// the cost of its process: a boot then takes a fraction of the time.
	Spare bool
}

const (
	defaultMaxProcesses = 512
	// defaultUploadPause is the guest's own bound (contracts/iii-sandbox.md §9).
	defaultUploadPause = 30 * time.Second
)

// Backend boots guests out of namespaces. It keeps nothing on disk.
type Backend struct {
	logger       *slog.Logger
	maxProcesses int
	diskMiB      int
	plan         RootPlan
	layer        *Layer
	available    map[string]bool
	cgroups      []cgroupKind
	launcher     *launch.Launcher
	owners       ownerRange
	spares       spares
	// carry takes over a guest's device.
	carry func(device io.ReadWriteCloser, ports []int) (NetworkEnd, error)
	// dial and nameserver are how guests with a network get out.
	dial       guestnet.Dial
	nameserver string
	// closing counts the networks whose teardown still runs, and the spare that is
	// being made.
	closing sync.WaitGroup
	// plainRoot is set when a user namespace is refused to root.
	plainRoot atomic.Bool
	// noDevice is set where guests cannot have a network device.
	noDevice bool
	// uploadPause is how long the content of a file may pause.
	uploadPause time.Duration
}

var _ daemon.Backend = (*Backend)(nil)

// New looks at what the machine offers. It starts no guest; SelfTest does.
func New(options Options) (*Backend, error) {
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	if options.MaxProcesses == 0 {
		options.MaxProcesses = defaultMaxProcesses
	}
	if options.MaxProcesses < 0 || options.DiskMiB < 0 {
		return nil, errors.New("bounds of a guest must not be negative")
	}
	if options.Available == nil {
		options.Root, options.Available = PlanRoot(context.Background())
	}
	b := &Backend{
		logger:       options.Logger,
		maxProcesses: options.MaxProcesses,
		diskMiB:      options.DiskMiB,
		plan:         options.Root,
		available:    options.Available,
		layer:        options.Layer,
		carry:        options.Carry,
		cgroups:      detectCgroups(),
		launcher:     launch.New(),
		dial:         (&net.Dialer{}).DialContext,
		nameserver:   guestnet.HostNameserver(),
		noDevice:     !outboundPossible(),
		uploadPause:  defaultUploadPause,
		spares:       spares{wanted: options.Spare},
	}
	if b.carry == nil {
		b.carry = b.carryHere
	}
	return b, nil
}

// Isolation is the word for sandbox::list.
func (b *Backend) Isolation() string { return "namespaces" }

// Limits says in words what bounds a guest's memory, processes and processor
// time on this machine.
func (b *Backend) Limits() string {
	var words []string
	for _, kind := range b.cgroups {
		words = append(words, kind.describe())
	}
	if missing := b.unbounded(); len(missing) > 0 {
		words = append(words, "resource limits of each process in place of: "+strings.Join(missing, ", "))
	}
	return strings.Join(words, "; ")
}

// Layers says in words what stands between a guest and this machine.
func (b *Backend) Layers() string {
	words := []string{"namespaces", "seccomp"}
	switch {
	case b.plainRoot.Load():
		words = append(words, "no user namespace: the guest's root is this machine's, without capabilities")
	case os.Geteuid() == 0:
		words = append(words, "user numbers of the guest's own")
	default:
		words = append(words, "the user number of the daemon's own user")
	}
	if b.keepsCapabilities() {
		words = append(words, "capabilities over its own files and processes only")
	} else {
		words = append(words, "no capabilities, so that chown and package managers fail")
	}
	if version := landlockVersion(); version > 0 {
		words = append(words, fmt.Sprintf("Landlock version %d", version))
	} else {
		words = append(words, "no Landlock in this kernel, so that there is no second layer")
	}
	return strings.Join(words, "; ")
}

// keepsCapabilities says whether guests with numbers of their own keep some.
func (b *Backend) keepsCapabilities() bool {
	return os.Geteuid() == 0 && !b.plainRoot.Load() && !slices.Contains(b.unbounded(), "pids")
}

// unbounded names the controllers that no cgroup has.
func (b *Backend) unbounded() []string {
	missing := map[string]bool{"memory": true, "pids": true, "cpu": true}
	for _, kind := range b.cgroups {
		for _, name := range kind.controllers() {
			delete(missing, name)
		}
	}
	var names []string
	for _, name := range []string{"memory", "pids", "cpu"} {
		if missing[name] {
			names = append(names, name)
		}
	}
	return names
}

// processLimits stand in for the controllers that are missing. Memory is then
// bounded for each process, not for the guest.
func (b *Backend) processLimits(spec daemon.BootSpec) []processLimit {
	var limits []processLimit
	for _, name := range b.unbounded() {
		switch name {
		case "memory":
			limits = append(limits, processLimit{unix.RLIMIT_DATA, uint64(spec.MemoryMiB) << 20})
		case "pids":
			limits = append(limits, processLimit{unix.RLIMIT_NPROC, uint64(b.maxProcesses)})
		}
	}
	return limits
}

// Network says in words what a guest with a network reaches.
func (b *Backend) Network() string {
	if b.noDevice {
		return "declared ports of the host's loopback through the gateway; internet is unavailable: " + tunDevice + " cannot be opened"
	}
	return "declared ports of the host's loopback through the gateway, names, and public addresses of the internet"
}

// SelfTest boots a guest, runs a program in it and stops it, or says what this
// machine lacks.
func (b *Backend) SelfTest(ctx context.Context) error {
	image := "node"
	if !b.available[image] {
		image = "python"
	}
	machine, err := b.Boot(ctx, daemon.BootSpec{Image: image, CPUs: 1, MemoryMiB: 128})
	if err != nil {
		return fmt.Errorf("%w%s", err, advice())
	}
	return daemon.TryMachine(ctx, machine, 10*time.Second)
}

// advice names the usual reasons why a machine refuses namespaces.
func advice() string {
	if os.Geteuid() == 0 {
		return "; as root this needs CAP_SYS_ADMIN and a kernel of 5.12 or newer"
	}
	for file, refused := range map[string]string{
		"/proc/sys/user/max_user_namespaces":                     "0",
		"/proc/sys/kernel/unprivileged_userns_clone":             "0",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
	} {
		if value, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(value)) == refused {
			return fmt.Sprintf("; %s is %s, so this user may not make user namespaces", file, refused)
		}
	}
	return "; this user needs to be allowed to make user namespaces"
}

// Close ends the spare and the thread that starts guests; no guest may be left.
func (b *Backend) Close() error {
	b.spares.close()
	b.launcher.Close()
	b.closing.Wait()
	return nil
}
