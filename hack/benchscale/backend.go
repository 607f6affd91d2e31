package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path"
	"sync"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/controllers/operatortest"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// backend boots sandboxes that are only in memory. The daemon in front of it is
// the real one; in the sandboxes a scripted guest answers as the agent does.
type backend struct {
	guest *operatortest.Guest

	mu       sync.Mutex
	machines map[sandbox.ID]*machine
	// contents holds each file once: all sandboxes have the same agent.
	contents map[[sha256.Size]byte][]byte
}

var _ daemon.Backend = (*backend)(nil)

func newBackend() *backend {
	b := &backend{machines: map[sandbox.ID]*machine{}, contents: map[[sha256.Size]byte][]byte{}}
	b.guest = operatortest.NewGuest(b)
	return b
}

// Isolation implements daemon.Backend.
func (b *backend) Isolation() string { return "scripted" }

// CheckImage implements daemon.Backend: there is every image.
func (b *backend) CheckImage(string) error { return nil }

// Close implements daemon.Backend.
func (b *backend) Close() error { return nil }

// Boot implements daemon.Backend.
func (b *backend) Boot(context.Context, daemon.BootSpec) (daemon.Machine, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &machine{backend: b, id: sandbox.NewID(uuid.NewString()), files: map[string][]byte{}, done: make(chan struct{})}
	b.machines[m.id] = m
	return m, nil
}

// File implements operatortest.Files.
func (b *backend) File(id sandbox.ID, name string) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, ok := b.machines[id]
	if !ok {
		return nil, false
	}
	content, ok := m.files[name]
	return content, ok
}

// store writes a file into a machine, unless that has ended.
func (b *backend) store(m *machine, name string, content []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, lives := b.machines[m.id]; !lives {
		return daemon.ErrMachineGone
	}
	sum := sha256.Sum256(content)
	if known, ok := b.contents[sum]; ok {
		content = known
	}
	b.contents[sum], m.files[name] = content, content
	return nil
}

// end forgets a machine and says whether it was there.
func (b *backend) end(m *machine) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, lives := b.machines[m.id]
	delete(b.machines, m.id)
	return lives
}

// machine is one sandbox. Its files belong to the back end's lock.
type machine struct {
	noFileFunctions
	backend *backend
	id      sandbox.ID
	files   map[string][]byte
	done    chan struct{}
}

// Done implements daemon.Machine.
func (m *machine) Done() <-chan struct{} { return m.done }

// Stop implements daemon.Machine.
func (m *machine) Stop(context.Context) error {
	if m.backend.end(m) {
		close(m.done)
	}
	return nil
}

// Exec implements daemon.Machine: only the agent can be run.
func (m *machine) Exec(ctx context.Context, spec daemon.ExecSpec) (daemon.ExecOutcome, error) {
	select {
	case <-m.done:
		return daemon.ExecOutcome{}, daemon.ErrMachineGone
	default:
	}
	result, err := m.backend.guest.Exec(ctx, sandbox.Info{ID: m.id}, sandbox.ExecRequest{
		Argv: spec.Argv, Stdin: spec.Stdin, Env: spec.Env, Timeout: spec.Timeout, Workdir: spec.Workdir,
	})
	return daemon.ExecOutcome{
		Stdout: result.Stdout, Stderr: result.Stderr, ExitCode: result.ExitCode, Duration: result.Duration,
	}, err
}

// WriteFile implements daemon.Machine.
func (m *machine) WriteFile(_ context.Context, spec daemon.WriteSpec, content io.Reader) (int64, error) {
	text, err := io.ReadAll(content)
	if err != nil {
		return 0, err
	}
	return int64(len(text)), m.backend.store(m, spec.Path, text)
}

// Stat implements daemon.Machine. The root is what renewals of the lease ask for.
func (m *machine) Stat(_ context.Context, name string) (daemon.FileInfo, error) {
	if name == "/" {
		return daemon.FileInfo{Name: "/", IsDir: true, Mode: 0o755}, nil
	}
	content, ok := m.backend.File(m.id, name)
	if !ok {
		return daemon.FileInfo{}, daemon.ErrFileMissing
	}
	return daemon.FileInfo{Name: path.Base(name), Size: int64(len(content)), Mode: 0o755}, nil
}

// OpenFile implements daemon.Machine: nothing of what is measured reads files.
func (m *machine) OpenFile(context.Context, string) (daemon.FileInfo, io.ReadCloser, error) {
	return daemon.FileInfo{}, nil, daemon.ErrFileMissing
}

var errNoFileFunction = errors.New("a scripted sandbox has no such file function")

// noFileFunctions are the daemon.Files that the operator does not use.
type noFileFunctions struct{}

func (noFileFunctions) List(context.Context, string) ([]daemon.FileInfo, error) {
	return nil, errNoFileFunction
}

func (noFileFunctions) MakeDir(context.Context, daemon.MakeDirSpec) (bool, error) {
	return false, errNoFileFunction
}

func (noFileFunctions) Remove(context.Context, daemon.RemoveSpec) error { return errNoFileFunction }

func (noFileFunctions) ChangeMode(context.Context, daemon.ModeSpec) (int, error) {
	return 0, errNoFileFunction
}

func (noFileFunctions) Move(context.Context, daemon.MoveSpec) error { return errNoFileFunction }

func (noFileFunctions) Grep(context.Context, daemon.GrepSpec) (daemon.GrepResult, error) {
	return daemon.GrepResult{}, errNoFileFunction
}

func (noFileFunctions) Sed(context.Context, daemon.SedSpec) (daemon.SedResult, error) {
	return daemon.SedResult{}, errNoFileFunction
}
