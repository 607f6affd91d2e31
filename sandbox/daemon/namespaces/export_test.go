package namespaces

import (
	"context"
	"net"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// AgentPID is the host's number of a guest's agent.
func AgentPID(m daemon.Machine) int { return m.(*machine).command.Process.Pid }

// GroupDirectories are a guest's control groups.
func GroupDirectories(m daemon.Machine) []string { return m.(*machine).group.directories }

// UsePlainRoot makes a back end of root do without user namespaces.
func UsePlainRoot(b *Backend) { b.plainRoot.Store(true) }

// UseNoDevice makes a back end pass listening sockets instead of a device.
func UseNoDevice(b *Backend) { b.noDevice = true }

// UseNoGroups leaves a back end with the limits of processes alone.
func UseNoGroups(b *Backend) { b.cgroups = nil }

// UseDialer replaces how guests get out.
func UseDialer(b *Backend, dial func(ctx context.Context, network, address string) (net.Conn, error), nameserver string) {
	b.dial, b.nameserver = dial, nameserver
}

// InterpreterPrefix is where the program on PATH is installed.
func InterpreterPrefix(program string) string {
	return interpreterPrefix(context.Background(), program)
}

// AddPrefix gives guests an interpreter's installation from outside /usr.
func AddPrefix(b *Backend, prefix string) { b.plan.addPrefix(prefix) }

// UseUploadPause bounds how long the content of a file may pause.
func UseUploadPause(pause time.Duration) func(*Backend) {
	return func(b *Backend) { b.uploadPause = pause }
}

// SparePID is the host's number of the agent that waits, 0 for none.
func SparePID(b *Backend) int {
	b.spares.mu.Lock()
	defer b.spares.mu.Unlock()
	if b.spares.ready == nil {
		return 0
	}
	return b.spares.ready.command.Process.Pid
}
