package qemu

import (
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// Names of the machine's serial ports.
const (
	controlPort = "sandbox.control"
	networkPort = "sandbox.network"
)

// Where process 1 finds what the image has beside /usr.
const (
	treesFolder  = "/image/trees"
	mountsFolder = "/image/mounts"
)

// preparation is the first frame to a machine that was just booted: all that does
// not differ between the guests that start from one saved state.
type preparation struct {
	Root         namespaces.RootPlan
	Available    map[string]bool
	CPUs         int
	MemoryMiB    int
	MaxProcesses int
}

// birth is the frame that makes a prepared machine one guest.
type birth struct {
	Now time.Time
	// Seed is fresh randomness: machines from one saved state have the same.
	Seed []byte
	Spec daemon.BootSpec
}

// answer is process 1's to either.
type answer struct{ Error string }

const seedBytes = 256
