package daemon

import (
	"context"
	"path"
)

// removeRequest is that of sandbox::fs::rm (contracts/iii-sandbox.md §4).
type removeRequest struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path" jsonschema_description:"Absolute path in the guest."`
	Recursive bool   `json:"recursive,omitempty" jsonschema_description:"Deletes a folder with all it holds."`
}

type removeResponse struct {
	Removed bool `json:"removed"`
}

// removeFile deletes a path of a guest; of a link only the link.
func (d *Daemon) removeFile(ctx context.Context, req removeRequest) (removeResponse, error) {
	e, err := d.claimPath(req.SandboxID, req.Path)
	if err != nil {
		return removeResponse{}, err
	}
	if path.Clean(req.Path) == "/" {
		return removeResponse{}, newFault(codeFileArgument, "the root cannot be removed")
	}
	if err := e.machine.Remove(ctx, RemoveSpec{Path: req.Path, Recursive: req.Recursive}); err != nil {
		return removeResponse{}, machineFault(err, req.Path)
	}
	return removeResponse{Removed: true}, nil
}
