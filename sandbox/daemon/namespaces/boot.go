package namespaces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestnet"
)

const (
	minMemoryMiB = 32
	maxHostPorts = 64
)

// Boot starts a guest. On an error nothing of it is left.
func (b *Backend) Boot(ctx context.Context, spec daemon.BootSpec) (daemon.Machine, error) {
	if err := b.check(spec); err != nil {
		return nil, err
	}
	limits := b.limits(spec.CPUs, spec.MemoryMiB)
	m := b.bootSpare(ctx, spec, limits)
	if m == nil {
		var err error
		if m, err = b.bootNew(ctx, spec, limits); err != nil {
			return nil, fmt.Errorf("booting a guest: %w", err)
		}
	}
	b.spares.refill(b, limits)
	return m, nil
}

// bootSpare returns nil without a spare, or with one that is of no use: it may have
// died a moment ago.
func (b *Backend) bootSpare(ctx context.Context, spec daemon.BootSpec, limits cgroupLimits) *machine {
	m := b.spares.take(ctx, limits)
	if m == nil {
		return nil
	}
	if err := m.boot(ctx, spec); err != nil {
		m.abandon()
		b.logger.Debug("A spare agent did not become a guest", "error", err)
		return nil
	}
	return m
}

func (b *Backend) bootNew(ctx context.Context, spec daemon.BootSpec, limits cgroupLimits) (*machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m, err := b.prepare(limits)
	if err != nil {
		return nil, err
	}
	if err := m.boot(ctx, spec); err != nil {
		m.abandon()
		return nil, err
	}
	return m, nil
}

func (b *Backend) limits(cpus, memoryMiB int) cgroupLimits {
	return cgroupLimits{memoryBytes: int64(memoryMiB) << 20, processes: b.maxProcesses, cpus: cpus}
}

// prepare starts an agent that waits to be told what to be. On an error nothing
// of it is left.
func (b *Backend) prepare(limits cgroupLimits) (*machine, error) {
	slot, err := b.owners.take()
	if err != nil {
		return nil, err
	}
	m := &machine{backend: b, limits: limits, slot: slot, done: make(chan struct{})}
	m.Operate = m.operate
	if m.group, err = newCgroup(b.cgroups, limits); err == nil {
		err = m.launch()
	}
	if err != nil {
		m.abandon()
		return nil, err
	}
	return m, nil
}

func (b *Backend) check(spec daemon.BootSpec) error {
	if err := b.CheckImage(spec.Image); err != nil {
		return err
	}
	if spec.CPUs < 1 || spec.CPUs > 255 {
		return fmt.Errorf("%d processors is not between 1 and 255", spec.CPUs)
	}
	if spec.MemoryMiB < minMemoryMiB {
		return fmt.Errorf("%d MiB of memory is under %d", spec.MemoryMiB, minMemoryMiB)
	}
	if len(spec.HostPorts) > maxHostPorts {
		return fmt.Errorf("%d host ports is over %d", len(spec.HostPorts), maxHostPorts)
	}
	for _, port := range spec.HostPorts {
		if port < 1 || port > 65535 {
			return fmt.Errorf("host port %d is not between 1 and 65535", port)
		}
	}
	return nil
}

// environment is what every program of the guest has; nothing of the daemon's
// own passes through.
func (b *Backend) environment(spec daemon.BootSpec) map[string]string {
	env := map[string]string{"PATH": b.plan.path(), "HOME": "/root", "LANG": "C.UTF-8"}
	for name, value := range spec.Env {
		env[name] = value
	}
	return env
}

// boot makes a waiting agent a guest.
func (m *machine) boot(ctx context.Context, spec daemon.BootSpec) error {
	m.env = m.backend.environment(spec)
	// An agent that is stuck is freed from its socket by its death.
	stop := context.AfterFunc(ctx, m.kill)
	defer stop()
	if err := m.configure(spec); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return ctx.Err()
}

// launch starts the agent's process, which then waits for its configuration.
func (m *machine) launch() error {
	ours, theirs, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		return err
	}
	guestEnd := os.NewFile(uintptr(theirs), "control")
	defer guestEnd.Close()
	if m.control, err = unixConn(ours); err != nil {
		return err
	}
	command, err := m.start(guestEnd)
	if err != nil {
		return err
	}
	m.command = command
	go m.watch()
	return m.group.add(command.Process.Pid)
}

// start falls back to plain root where root may not have a user namespace.
func (m *machine) start(guestEnd *os.File) (*exec.Cmd, error) {
	if !m.backend.plainRoot.Load() {
		command := agentCommand(guestEnd, true, m.slot)
		err := m.backend.launcher.Start(command)
		if err == nil {
			m.userNamespace = true
			return command, nil
		}
		if !userNamespaceRefused(err) {
			return nil, startError(err)
		}
		m.backend.logger.Warn("User namespaces are refused, guests run without them", "error", err)
		m.backend.plainRoot.Store(true)
	}
	command := agentCommand(guestEnd, false, m.slot)
	if err := m.backend.launcher.Start(command); err != nil {
		return nil, startError(err)
	}
	return command, nil
}

// configure tells the agent what to be and waits until it is.
func (m *machine) configure(spec daemon.BootSpec) error {
	config := bootConfig{
		Image: m.backend.plan, Layer: m.backend.layer, Mounts: spec.Mounts, UserNamespace: m.userNamespace,
		Capabilities: m.capabilities(), DiskBytes: m.diskBytes(spec),
		Network: spec.Network, ProcessLimits: m.backend.processLimits(spec), UploadPause: m.backend.uploadPause,
	}
	if spec.Network {
		config.Outbound = !m.backend.noDevice
		if !config.Outbound {
			config.Ports = spec.HostPorts
		}
	}
	if err := m.sendConfig(config); err != nil {
		return err
	}
	payload, fds, err := receivePacket(m.control)
	if err != nil {
		return fmt.Errorf("the guest's agent ended: %w", err)
	}
	return m.accept(payload, fds, config, spec.HostPorts)
}

// capabilities are what the guest's programs keep: none without numbers of their
// own, which only root can give, and none where processes are counted by user
// number, of which a program could then take many.
func (m *machine) capabilities() []uintptr {
	if !m.userNamespace || !m.backend.keepsCapabilities() {
		return nil
	}
	return guestCapabilities
}

func (m *machine) sendConfig(config bootConfig) error {
	payload, err := json.Marshal(config)
	if err != nil {
		return err
	}
	joins, err := m.group.openThreadFiles()
	if err != nil {
		return err
	}
	defer closeAll(joins)
	return sendPacket(m.control, payload, joins...)
}

// accept takes over what the booted agent made for the daemon.
func (m *machine) accept(payload []byte, fds []int, config bootConfig, ports []int) error {
	var answer bootReply
	if err := json.Unmarshal(payload, &answer); err != nil {
		closeAll(fds)
		return err
	}
	if answer.Error != "" {
		closeAll(fds)
		return errors.New(answer.Error)
	}
	if answer.ReadOnlyUsr {
		m.backend.logger.Warn("The kernel refuses an overlay over /usr, guests cannot write there")
	}
	want := len(config.Ports)
	if config.Outbound {
		want++
	}
	if len(fds) != want || answer.Device != config.Outbound {
		closeAll(fds)
		return fmt.Errorf("the agent sent %d descriptors where %d were due", len(fds), want)
	}
	return m.connectNetwork(fds, config, ports)
}

func (m *machine) diskBytes(spec daemon.BootSpec) int64 {
	if m.backend.diskMiB > 0 {
		return int64(m.backend.diskMiB) << 20
	}
	return int64(spec.MemoryMiB) << 20 / 2
}

// NetworkEnd is what carries a guest's traffic on the daemon's side.
type NetworkEnd interface {
	Close() error
	// LastUse is zero when the guest has not used its network.
	LastUse() time.Time
}

func (m *machine) connectNetwork(fds []int, config bootConfig, ports []int) error {
	if config.Outbound {
		return m.carryPackets(fds[len(fds)-1], ports)
	}
	if len(fds) == 0 {
		return nil
	}
	var listeners []net.Listener
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "listener")
		listener, err := net.FileListener(file)
		_ = file.Close()
		if err != nil {
			closeAll(fds[i+1:])
			guestnet.CloseListeners(listeners)
			return err
		}
		listeners = append(listeners, listener)
	}
	m.setNetwork(guestnet.NewGateway(listeners, config.Ports, m.backend.dial))
	return nil
}

// carryPackets takes over the guest's device.
func (m *machine) carryPackets(fd int, ports []int) error {
	// Set first, so that Go waits for packets without a thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return err
	}
	device := os.NewFile(uintptr(fd), "tun")
	end, err := m.backend.carry(device, ports)
	if err != nil {
		return err
	}
	m.setNetwork(end)
	return nil
}

// carryHere is the back end's own way to carry a guest's packets.
func (b *Backend) carryHere(device io.ReadWriteCloser, ports []int) (NetworkEnd, error) {
	return guestnet.New(guestnet.Options{
		Device: device, Ports: ports, Dial: b.dial, Nameserver: b.nameserver, Closing: &b.closing,
	})
}
