package namespaces

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// List implements daemon.Files.
func (m *machine) List(ctx context.Context, path string) ([]daemon.FileInfo, error) {
	return operate[[]daemon.FileInfo](ctx, m, opList, path)
}

// MakeDir implements daemon.Files.
func (m *machine) MakeDir(ctx context.Context, spec daemon.MakeDirSpec) (bool, error) {
	return operate[bool](ctx, m, opMakeDir, spec)
}

// Remove implements daemon.Files.
func (m *machine) Remove(ctx context.Context, spec daemon.RemoveSpec) error {
	_, err := operate[bool](ctx, m, opRemove, spec)
	return err
}

// ChangeMode implements daemon.Files.
func (m *machine) ChangeMode(ctx context.Context, spec daemon.ModeSpec) (int, error) {
	return operate[int](ctx, m, opChangeMode, spec)
}

// Move implements daemon.Files.
func (m *machine) Move(ctx context.Context, spec daemon.MoveSpec) error {
	_, err := operate[bool](ctx, m, opMove, spec)
	return err
}

// Grep implements daemon.Files.
func (m *machine) Grep(ctx context.Context, spec daemon.GrepSpec) (daemon.GrepResult, error) {
	return operate[daemon.GrepResult](ctx, m, opGrep, spec)
}

// Sed implements daemon.Files.
func (m *machine) Sed(ctx context.Context, spec daemon.SedSpec) (daemon.SedResult, error) {
	return operate[daemon.SedResult](ctx, m, opSed, spec)
}

// operate has the agent do a file operation. Its context ends it in the guest
// too.
func operate[R any](ctx context.Context, m *machine, op operation, arguments any) (R, error) {
	var result R
	text, err := json.Marshal(arguments)
	if err != nil {
		return result, err
	}
	session, stop, err := m.ask(ctx, request{Op: op, Arguments: text})
	if err != nil {
		return result, err
	}
	defer session.Close()
	defer stop()
	if _, err := m.answer(ctx, session); err != nil {
		return result, err
	}
	content, err := io.ReadAll(io.LimitReader(&wire.ChunkReader{Source: session}, wire.ResultLimit+1))
	if err != nil {
		return result, m.lost(ctx, err)
	}
	if err := json.Unmarshal(content, &result); err != nil {
		return result, fmt.Errorf("reading the agent's result: %w", err)
	}
	return result, nil
}
