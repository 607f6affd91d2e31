package qemu

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestnet"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/remote"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

const (
	minMemoryMiB = 32
	maxCPUs      = 64
	maxHostPorts = 64
)

func (b *Backend) check(spec daemon.BootSpec) error {
	if err := b.CheckImage(spec.Image); err != nil {
		return err
	}
	if spec.CPUs < 1 || spec.CPUs > maxCPUs {
		return fmt.Errorf("%d processors is not between 1 and %d", spec.CPUs, maxCPUs)
	}
	if spec.MemoryMiB < minMemoryMiB {
		return fmt.Errorf("%d MiB of memory is under %d", spec.MemoryMiB, minMemoryMiB)
	}
	if len(spec.HostPorts) > maxHostPorts {
		return fmt.Errorf("%d host ports is over %d", len(spec.HostPorts), maxHostPorts)
	}
	return nil
}

// Boot starts a guest: from a saved state, or anew where that cannot be. On an error
// nothing of it is left.
func (b *Backend) Boot(ctx context.Context, spec daemon.BootSpec) (daemon.Machine, error) {
	if err := b.check(spec); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	parts, err := b.partsImage(ctx, spec.Mounts)
	if err != nil {
		return nil, err
	}
	defer parts.Close()
	s := shape{
		accelerator: b.accelerator, cpus: spec.CPUs, memoryMiB: spec.MemoryMiB, network: spec.Network,
		images: []*os.File{b.usr, parts},
	}
	p, err := b.prepared(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("booting a guest: %w", err)
	}
	m, err := b.begin(ctx, p, spec)
	if err != nil {
		p.kill()
		<-p.ended
		return nil, fmt.Errorf("booting a guest: %w", err)
	}
	return m, nil
}

// prepared returns a machine that waits to be told what to be.
func (b *Backend) prepared(ctx context.Context, s shape) (*process, error) {
	if b.anew {
		return b.startAnew(ctx, s)
	}
	state, err := b.savedState(ctx, s)
	if err == nil {
		defer state.Close()
		return b.start(s, state)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	b.logger.Warn("A machine starts anew, which takes several times as long, because no state of it could be saved", "error", err)
	return b.startAnew(ctx, s)
}

// startAnew boots a machine until it waits to be told what to be.
func (b *Backend) startAnew(ctx context.Context, s shape) (*process, error) {
	p, err := b.start(s, nil)
	if err != nil {
		return nil, err
	}
	err = p.ask(ctx, preparation{
		Root: b.plan, Available: b.available, CPUs: s.cpus, MemoryMiB: s.memoryMiB, MaxProcesses: b.maxProcesses,
	})
	if err != nil {
		p.kill()
		<-p.ended
		return nil, fmt.Errorf("booting a machine: %w", p.why(err))
	}
	return p, nil
}

// ask sends a frame to process 1 and waits for its answer.
func (p *process) ask(ctx context.Context, question any) error {
	stop := context.AfterFunc(ctx, func() { _ = p.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := wire.WriteJSON(p.control, question); err != nil {
		return p.lost(ctx, err)
	}
	var a answer
	if err := wire.ReadJSON(p.control, &a); err != nil {
		return p.lost(ctx, err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

func (p *process) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the machine has not answered in time: %w", ctx.Err())
	}
	return fmt.Errorf("the machine has ended: %w", err)
}

// begin makes a prepared machine the guest.
func (b *Backend) begin(ctx context.Context, p *process, spec daemon.BootSpec) (daemon.Machine, error) {
	seed := make([]byte, seedBytes)
	if _, err := rand.Read(seed); err != nil {
		return nil, err
	}
	if err := p.ask(ctx, birth{Now: time.Now(), Seed: seed, Spec: inside(spec)}); err != nil {
		return nil, p.why(err)
	}
	client, err := remote.NewClient(p.control)
	if err != nil {
		return nil, err
	}
	m := &machine{Client: client, backend: b, process: p, done: make(chan struct{})}
	if spec.Network {
		m.network, err = guestnet.New(guestnet.Options{
			Device: &packetPort{stream: p.network}, Ports: spec.HostPorts,
			Dial: b.dial, Nameserver: b.nameserver, Closing: &b.closing,
		})
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
	}
	go m.watch()
	return m, nil
}

// inside is what the machine itself is to know of a guest: where its mounts are in
// there, and nothing of the host's ports, which the daemon guards.
func inside(spec daemon.BootSpec) daemon.BootSpec {
	mounts := make([]daemon.Mount, 0, len(spec.Mounts))
	for i, m := range spec.Mounts {
		mounts = append(mounts, daemon.Mount{Source: filepath.Join(mountsFolder, strconv.Itoa(i)), Target: m.Target})
	}
	spec.Mounts, spec.HostPorts = mounts, nil
	return spec
}

var _ namespaces.NetworkEnd = (*guestnet.Network)(nil)
