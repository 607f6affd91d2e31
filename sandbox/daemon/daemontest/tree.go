package daemontest

import (
	"context"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestfiles"
)

// tree implements daemon.Files without an agent in between.
type tree struct{ files *guestfiles.Tree }

var _ daemon.Files = (*tree)(nil)

// List implements daemon.Files.
func (t *tree) List(_ context.Context, path string) ([]daemon.FileInfo, error) {
	infos, err := t.files.List(path)
	for i := range infos {
		infos[i].ModTime = modTime
	}
	return infos, guestfiles.Named(err)
}

// MakeDir implements daemon.Files.
func (t *tree) MakeDir(_ context.Context, spec daemon.MakeDirSpec) (bool, error) {
	made, err := t.files.MakeDir(spec)
	return made, guestfiles.Named(err)
}

// Remove implements daemon.Files.
func (t *tree) Remove(ctx context.Context, spec daemon.RemoveSpec) error {
	return guestfiles.Named(t.files.Remove(ctx, spec))
}

// ChangeMode implements daemon.Files.
func (t *tree) ChangeMode(ctx context.Context, spec daemon.ModeSpec) (int, error) {
	count, err := t.files.ChangeMode(ctx, spec)
	return count, guestfiles.Named(err)
}

// Move implements daemon.Files.
func (t *tree) Move(ctx context.Context, spec daemon.MoveSpec) error {
	return guestfiles.Named(t.files.Move(ctx, spec))
}

// Grep implements daemon.Files.
func (t *tree) Grep(ctx context.Context, spec daemon.GrepSpec) (daemon.GrepResult, error) {
	result, err := t.files.Grep(ctx, spec)
	return result, guestfiles.Named(err)
}

// Sed implements daemon.Files.
func (t *tree) Sed(ctx context.Context, spec daemon.SedSpec) (daemon.SedResult, error) {
	result, err := t.files.Sed(ctx, spec)
	return result, guestfiles.Named(err)
}
