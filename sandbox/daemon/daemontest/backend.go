// Package daemontest has what tests of the sandbox daemon and of its clients
// share: a back end without guests and a daemon on an engine of its own.
package daemontest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// ExecFunc stands in for the programs of a guest.
type ExecFunc func(ctx context.Context, m *Machine, spec daemon.ExecSpec) (daemon.ExecOutcome, error)

// Backend boots machines that are only a folder. Set its fields before use.
type Backend struct {
	// Boots, when not nil, is asked before every boot and may block or fail.
	Boots func(ctx context.Context, spec daemon.BootSpec) error
	// Exec answers every exec; nil means Echo.
	Exec ExecFunc
	// Absent are the images without files.
	Absent []string
	// Writes, when not nil, is asked before every written file and may fail.
	Writes func() error
	// Stops, when not nil, is asked before every stop and may fail.
	Stops func() error

	mu       sync.Mutex
	machines []*Machine
}

var _ daemon.Backend = (*Backend)(nil)

// Isolation implements daemon.Backend.
func (b *Backend) Isolation() string { return "memory" }

// Close implements daemon.Backend.
func (b *Backend) Close() error { return nil }

// CheckImage implements daemon.Backend.
func (b *Backend) CheckImage(image string) error {
	if slices.Contains(b.Absent, image) {
		return fmt.Errorf("no files: %w", daemon.ErrNoImage)
	}
	return nil
}

// Boot implements daemon.Backend.
func (b *Backend) Boot(ctx context.Context, spec daemon.BootSpec) (daemon.Machine, error) {
	if b.Boots != nil {
		if err := b.Boots(ctx, spec); err != nil {
			return nil, err
		}
	}
	m, err := newMachine(b, spec)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.machines = append(b.machines, m)
	return m, nil
}

// Machines returns every machine that was ever booted, oldest first.
func (b *Backend) Machines() []*Machine {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*Machine(nil), b.machines...)
}

// Live counts the machines that have not ended.
func (b *Backend) Live() int {
	live := 0
	for _, m := range b.Machines() {
		select {
		case <-m.done:
		default:
			live++
		}
	}
	return live
}

// Echo answers with the program's own description as JSON.
func Echo(_ context.Context, _ *Machine, spec daemon.ExecSpec) (daemon.ExecOutcome, error) {
	text, err := json.Marshal(map[string]any{
		"argv": spec.Argv, "stdin": string(spec.Stdin), "env": spec.Env,
		"workdir": spec.Workdir, "timeout_ms": spec.Timeout.Milliseconds(), "output_limit": spec.OutputLimit,
	})
	return daemon.ExecOutcome{Stdout: text}, err
}
