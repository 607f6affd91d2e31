package daemontest

import (
	"bytes"
	"context"
	"io"
	"path"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// Machine is a guest in memory. It knows files by whole paths and the folders
// that they stand in.
type Machine struct {
	Spec daemon.BootSpec

	backend *Backend
	mu      sync.Mutex
	files   map[string]file
	writes  int
	end     sync.Once
	done    chan struct{}
}

type file struct {
	content []byte
	mode    uint32
}

// modTime is that of every file.
var modTime = time.Unix(1_790_000_000, 0)

// Die ends the machine by itself.
func (m *Machine) Die() { m.end.Do(func() { close(m.done) }) }

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
	if path.Dir(spec.Path) != "/" && !spec.Parents && !m.isFolder(path.Dir(spec.Path)) {
		return 0, daemon.ErrParentMissing
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[spec.Path] = file{content: data, mode: spec.Mode}
	return int64(len(data)), nil
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
func (m *Machine) OpenFile(ctx context.Context, name string) (daemon.FileInfo, io.ReadCloser, error) {
	info, err := m.Stat(ctx, name)
	if err != nil {
		return daemon.FileInfo{}, nil, err
	}
	if info.IsDir {
		return daemon.FileInfo{}, nil, daemon.ErrWrongType
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return info, io.NopCloser(bytes.NewReader(m.files[name].content)), nil
}

// Stat implements daemon.Machine.
func (m *Machine) Stat(_ context.Context, name string) (daemon.FileInfo, error) {
	if m.isFolder(name) {
		return daemon.FileInfo{Name: path.Base(name), IsDir: true, Mode: 0o755, ModTime: modTime}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f, there := m.files[name]
	if !there {
		return daemon.FileInfo{}, daemon.ErrFileMissing
	}
	return daemon.FileInfo{Name: path.Base(name), Size: int64(len(f.content)), Mode: f.mode, ModTime: modTime}, nil
}

func (m *Machine) isFolder(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "/" {
		return true
	}
	for other := range m.files {
		for parent := path.Dir(other); parent != "/"; parent = path.Dir(parent) {
			if parent == name {
				return true
			}
		}
	}
	return false
}
