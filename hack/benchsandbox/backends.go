package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/qemu"
)

// measured is a back end with what the benchmark asks of it.
type measured interface {
	daemon.Backend
	SelfTest(ctx context.Context) error
	Layers() string
	Limits() string
}

// candidate is a back end that can be measured.
type candidate struct {
	// warm is as the daemon has it; cold has nothing ready for the next guest.
	warm, cold func(*slog.Logger) (measured, error)
	// prefix begins the names of its numbers.
	prefix string
	// defaults of the options.
	rounds, held, cycles int
	// bursts are how many creates begin at the same time, idle how many sandboxes
	// the memory is averaged over.
	bursts []int
	idle   int
}

var backends = map[string]candidate{
	daemon.BackendNamespaces: {
		warm: func(logger *slog.Logger) (measured, error) {
			return namespaces.New(namespaces.Options{Logger: logger, Spare: true})
		},
		cold: func(logger *slog.Logger) (measured, error) {
			return namespaces.New(namespaces.Options{Logger: logger})
		},
		prefix: "sandbox.", rounds: 100, held: 200, cycles: 1000, bursts: []int{1, 8, 32}, idle: 20,
	},
	daemon.BackendQEMU: {
		warm: func(logger *slog.Logger) (measured, error) { return machines(logger, false) },
		cold: func(logger *slog.Logger) (measured, error) { return machines(logger, true) },
		// An emulated processor takes a second for what a namespace takes milliseconds.
		prefix: "sandbox.qemu.", rounds: 10, held: 8, cycles: 20, bursts: []int{1, 4}, idle: 4,
	},
}

func machines(logger *slog.Logger, anew bool) (measured, error) {
	return qemu.New(qemu.Options{Logger: logger, Root: os.Getenv("QEMU_ROOT"), Anew: anew})
}

// choose finds the back end and completes the options.
func choose(o *options) (candidate, error) {
	o.backend = cmp.Or(o.backend, os.Getenv("BACKEND"), daemon.BackendNamespaces)
	chosen, known := backends[o.backend]
	if !known {
		return chosen, fmt.Errorf("back end %q is neither %s nor %s", o.backend, daemon.BackendNamespaces, daemon.BackendQEMU)
	}
	o.rounds, o.held, o.cycles = cmp.Or(o.rounds, chosen.rounds), cmp.Or(o.held, chosen.held), cmp.Or(o.cycles, chosen.cycles)
	return chosen, nil
}
