package qemu

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestnet"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/remote"
)

// machine is one guest, seen from the daemon.
type machine struct {
	*remote.Client
	backend *Backend
	process *process
	// network is nil without one.
	network *guestnet.Network
	done    chan struct{}
	// stopping says that the guest's end was asked for.
	stopping atomic.Bool
}

var (
	_ daemon.Machine     = (*machine)(nil)
	_ daemon.NetworkUser = (*machine)(nil)
)

// watch frees what the guest held once QEMU has ended.
func (m *machine) watch() {
	<-m.process.ended
	if !m.stopping.Load() {
		m.backend.logger.Warn("A guest has ended by itself", "status", m.process.waited, "said", m.process.console.String())
	}
	_ = m.Close()
	if m.network != nil {
		_ = m.network.Close()
	}
	close(m.done)
}

// Done is closed when the guest has ended and what it held is free.
func (m *machine) Done() <-chan struct{} { return m.done }

// Stop kills QEMU, and with it everything in the guest.
func (m *machine) Stop(ctx context.Context) error {
	m.stopping.Store(true)
	if err := m.process.stop(ctx); err != nil {
		return err
	}
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LastNetworkUse is when the guest's network last carried something.
func (m *machine) LastNetworkUse() time.Time {
	if m.network == nil {
		return time.Time{}
	}
	return m.network.LastUse()
}
