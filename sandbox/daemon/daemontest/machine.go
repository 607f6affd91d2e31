package daemontest

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestfiles"
)

// Machine is a guest without programs. Its files are real ones in a folder of its
// own, handled as in a guest.
type Machine struct {
	Spec daemon.BootSpec

	backend *Backend
	folder  string
	*tree
	mu     sync.Mutex
	writes int
	end    sync.Once
	done   chan struct{}
}

var _ daemon.Machine = (*Machine)(nil)

// modTime is what stands for the time of every file.
var modTime = time.Unix(1_790_000_000, 0)

func newMachine(b *Backend, spec daemon.BootSpec) (*Machine, error) {
	folder, err := os.MkdirTemp("", "machine-")
	if err != nil {
		return nil, err
	}
	files, err := guestfiles.Open(folder)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return &Machine{Spec: spec, backend: b, folder: folder, tree: &tree{files}, done: make(chan struct{})}, nil
}

// Die ends the machine by itself.
func (m *Machine) Die() {
	m.end.Do(func() {
		_ = m.files.Close()
		_ = os.RemoveAll(m.folder)
		close(m.done)
	})
}

// Done implements daemon.Machine.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Stop implements daemon.Machine.
func (m *Machine) Stop(context.Context) error {
	if m.backend.Stops != nil {
		if err := m.backend.Stops(); err != nil {
			return err
		}
	}
	m.Die()
	return nil
}

// Exec implements daemon.Machine.
func (m *Machine) Exec(ctx context.Context, spec daemon.ExecSpec) (daemon.ExecOutcome, error) {
	select {
	case <-m.done:
		return daemon.ExecOutcome{}, daemon.ErrMachineGone
	default:
	}
	if m.backend.Exec != nil {
		return m.backend.Exec(ctx, m, spec)
	}
	return Echo(ctx, m, spec)
}

// WriteFile implements daemon.Machine.
func (m *Machine) WriteFile(_ context.Context, spec daemon.WriteSpec, content io.Reader) (int64, error) {
	defer m.countWrite()
	if m.backend.Writes != nil {
		if err := m.backend.Writes(); err != nil {
			return 0, err
		}
	}
	upload, err := m.files.Create(spec)
	if err != nil {
		return 0, guestfiles.Named(err)
	}
	defer upload.Abort()
	written, err := io.Copy(upload, content)
	if err != nil {
		return 0, err
	}
	return written, upload.Commit()
}

func (m *Machine) countWrite() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
}

// Writes counts the calls of WriteFile that have returned.
func (m *Machine) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// OpenFile implements daemon.Machine.
func (m *Machine) OpenFile(_ context.Context, name string) (daemon.FileInfo, io.ReadCloser, error) {
	file, info, err := m.files.OpenFile(name)
	if err != nil {
		return daemon.FileInfo{}, nil, guestfiles.Named(err)
	}
	info.ModTime = modTime
	return info, file, nil
}

// Stat implements daemon.Machine.
func (m *Machine) Stat(_ context.Context, name string) (daemon.FileInfo, error) {
	info, err := m.files.Stat(name)
	info.ModTime = modTime
	return info, guestfiles.Named(err)
}
