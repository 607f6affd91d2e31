package daemon

import (
	"context"
	"errors"
	"path"
)

const defaultFolderMode = "0755"

// makeFolderRequest is that of sandbox::fs::mkdir (contracts/iii-sandbox.md §4).
type makeFolderRequest struct {
	SandboxID string  `json:"sandbox_id"`
	Path      string  `json:"path" jsonschema_description:"Absolute path in the guest."`
	Mode      *string `json:"mode,omitempty" jsonschema_description:"Octal mode, 0755 when absent."`
	Parents   bool    `json:"parents,omitempty" jsonschema_description:"Makes missing parent folders; an existing folder is no error."`
}

type makeFolderResponse struct {
	Created bool `json:"created" jsonschema_description:"False for a folder that was there already."`
}

// makeFolder makes a folder of a guest. Unlike for a written file, a missing
// parent comes without a fix.
func (d *Daemon) makeFolder(ctx context.Context, req makeFolderRequest) (makeFolderResponse, error) {
	mode, err := parseMode(orDefault(req.Mode, defaultFolderMode))
	if err != nil {
		return makeFolderResponse{}, err
	}
	e, err := d.claimPath(req.SandboxID, req.Path)
	if err != nil {
		return makeFolderResponse{}, err
	}
	created, err := e.machine.MakeDir(ctx, MakeDirSpec{Path: req.Path, Mode: mode, Parents: req.Parents})
	if errors.Is(err, ErrParentMissing) {
		return makeFolderResponse{}, folderMissing(path.Dir(req.Path))
	}
	if err != nil {
		return makeFolderResponse{}, machineFault(err, req.Path)
	}
	return makeFolderResponse{Created: created}, nil
}
