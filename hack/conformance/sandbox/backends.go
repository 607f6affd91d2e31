package main

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/qemu"
)

// tested is a back end with what the suite asks of it.
type tested interface {
	daemon.Backend
	SelfTest(ctx context.Context) error
	Layers() string
	Limits() string
	Network() string
}

// candidate is a back end that the suite can drive.
type candidate struct {
	make func(*slog.Logger, daemon.Config) (tested, error)
	// patience multiplies what rows wait for: an emulated processor is slow.
	patience int
	// strictTimeout is the strict daemon's ceiling of an exec's timeout, in
	// milliseconds: rows wait for it, and a small program must end well before.
	strictTimeout uint64
	// oneByOne runs the modes one after the other, because each needs the whole
	// machine; a short run has only the first.
	oneByOne bool
	// root is where the back end's programs are, for one that needs some.
	root func() string
}

// backends are those that the suite can drive, by the name that --backend takes.
var backends = map[string]candidate{
	daemon.BackendNamespaces: {
		make: func(logger *slog.Logger, _ daemon.Config) (tested, error) {
			return namespaces.New(namespaces.Options{Logger: logger, Spare: true})
		},
		patience:      1,
		strictTimeout: 700,
	},
	daemon.BackendQEMU: {
		make: func(logger *slog.Logger, c daemon.Config) (tested, error) {
			return qemu.New(qemu.Options{Logger: logger, Root: c.QEMURoot, Cache: c.QEMUCache})
		},
		patience:      6,
		strictTimeout: 15_000,
		oneByOne:      true,
		root:          func() string { return firstSet(os.Getenv("QEMU_ROOT"), "/") },
	},
}

func knownBackends() string {
	return strings.Join(slices.Sorted(maps.Keys(backends)), ", ")
}
