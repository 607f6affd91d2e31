package namespaces

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/launch"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// machine is one guest, seen from the daemon.
type machine struct {
	wire.Files
	backend       *Backend
	env           map[string]string
	limits        cgroupLimits
	slot          int
	userNamespace bool
	group         *cgroup
	control       *net.UnixConn
	command       *exec.Cmd
	done          chan struct{}
	// watchError is why something of the guest could not be freed; it is set
	// before done is closed.
	watchError error

	// stopping says that the guest's end was asked for.
	stopping atomic.Bool

	mu      sync.Mutex
	ended   bool
	network NetworkEnd
}

var _ daemon.Machine = (*machine)(nil)

const removalTimeout = 5 * time.Second

// watch frees what the guest held once its agent is dead. The kernel has then
// ended every process of the guest: it reaps a process namespace before it lets
// go of its first process.
func (m *machine) watch() {
	waited := m.command.Wait()
	if !m.stopping.Load() {
		m.backend.logger.Warn("A guest has ended by itself", "status", waited, "said", m.command.Stderr.(*launch.Tail).String())
	}
	m.watchError = m.free()
	if m.watchError != nil {
		m.backend.logger.Error("Freeing a guest failed", "error", m.watchError)
	}
	close(m.done)
}

func (m *machine) free() error {
	var failed error
	if m.control != nil {
		failed = m.control.Close()
	}
	m.mu.Lock()
	m.ended = true
	network := m.network
	m.mu.Unlock()
	if network != nil {
		failed = errors.Join(failed, network.Close())
	}
	if m.group != nil {
		ctx, cancel := context.WithTimeout(context.Background(), removalTimeout)
		defer cancel()
		failed = errors.Join(failed, m.group.remove(ctx))
	}
	m.backend.owners.give(m.slot)
	return failed
}

// setNetwork keeps the network's end for free, which may have been already.
func (m *machine) setNetwork(end NetworkEnd) {
	m.mu.Lock()
	ended := m.ended
	m.network = end
	m.mu.Unlock()
	if ended {
		_ = end.Close()
	}
}

// abandon ends a guest that did not come up.
func (m *machine) abandon() {
	if m.command != nil {
		_ = m.Stop(context.Background())
		return
	}
	if err := m.free(); err != nil {
		m.backend.logger.Error("Freeing a guest failed", "error", err)
	}
}

// Done is closed when the guest has ended and what it held is free.
func (m *machine) Done() <-chan struct{} { return m.done }

// Stop kills the agent, and with it everything in the guest.
func (m *machine) Stop(ctx context.Context) error {
	m.kill()
	select {
	case <-m.done:
		return m.watchError
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *machine) kill() {
	m.stopping.Store(true)
	_ = m.command.Process.Kill()
}

// openSession opens a socket to the agent for one request. The descriptors stay
// the caller's.
func (m *machine) openSession(fds ...int) (*net.UnixConn, error) {
	ours, theirs, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	session, err := unixConn(ours)
	if err != nil {
		return nil, err
	}
	if err := sendPacket(m.control, []byte{'s'}, append([]int{theirs}, fds...)...); err != nil {
		_ = session.Close()
		return nil, m.gone(err)
	}
	return session, nil
}

// gone turns the end of a connection into the end of the guest, which it is.
func (m *machine) gone(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(daemon.ErrMachineGone, err)
}
