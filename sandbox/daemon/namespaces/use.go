package namespaces

import (
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

var _ daemon.NetworkUser = (*machine)(nil)

// LastNetworkUse is when the guest's network last carried something.
func (m *machine) LastNetworkUse() time.Time {
	m.mu.Lock()
	network := m.network
	m.mu.Unlock()
	if network == nil {
		return time.Time{}
	}
	return network.LastUse()
}
