package wire

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// Operation names what a guest's agent is asked for.
type Operation string

// The operations of a daemon.Machine.
const (
	OpExec  Operation = "exec"
	OpWrite Operation = "write"
	OpOpen  Operation = "open"
	OpStat  Operation = "stat"
	// The others have one value as arguments and one as result.
	OpList       Operation = "list"
	OpMakeDir    Operation = "mkdir"
	OpRemove     Operation = "remove"
	OpChangeMode Operation = "mode"
	OpMove       Operation = "move"
	OpGrep       Operation = "grep"
	OpSed        Operation = "sed"
)

// Files does the operations that have one value as arguments and one as result. A
// machine embeds it.
type Files struct {
	// Operate has the agent do an operation, whose arguments travel as JSON, and
	// returns its result as JSON. The end of the context ends the operation in the
	// guest too.
	Operate func(ctx context.Context, op Operation, arguments any) ([]byte, error)
}

// Do asks for an operation with these arguments and reads its result.
func Do[R any](ctx context.Context, f Files, op Operation, arguments any) (R, error) {
	var result R
	content, err := f.Operate(ctx, op, arguments)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(content, &result); err != nil {
		return result, fmt.Errorf("reading the result of %s: %w", op, err)
	}
	return result, nil
}

// List implements daemon.Files.
func (f Files) List(ctx context.Context, path string) ([]daemon.FileInfo, error) {
	return Do[[]daemon.FileInfo](ctx, f, OpList, path)
}

// MakeDir implements daemon.Files.
func (f Files) MakeDir(ctx context.Context, spec daemon.MakeDirSpec) (bool, error) {
	return Do[bool](ctx, f, OpMakeDir, spec)
}

// Remove implements daemon.Files.
func (f Files) Remove(ctx context.Context, spec daemon.RemoveSpec) error {
	_, err := Do[bool](ctx, f, OpRemove, spec)
	return err
}

// ChangeMode implements daemon.Files.
func (f Files) ChangeMode(ctx context.Context, spec daemon.ModeSpec) (int, error) {
	return Do[int](ctx, f, OpChangeMode, spec)
}

// Move implements daemon.Files.
func (f Files) Move(ctx context.Context, spec daemon.MoveSpec) error {
	_, err := Do[bool](ctx, f, OpMove, spec)
	return err
}

// Grep implements daemon.Files.
func (f Files) Grep(ctx context.Context, spec daemon.GrepSpec) (daemon.GrepResult, error) {
	return Do[daemon.GrepResult](ctx, f, OpGrep, spec)
}

// Sed implements daemon.Files.
func (f Files) Sed(ctx context.Context, spec daemon.SedSpec) (daemon.SedResult, error) {
	return Do[daemon.SedResult](ctx, f, OpSed, spec)
}
