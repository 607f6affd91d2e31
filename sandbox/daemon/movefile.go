package daemon

import (
	"context"
	"errors"
	"path"
)

// moveRequest is that of sandbox::fs::mv (contracts/iii-sandbox.md §4).
type moveRequest struct {
	SandboxID string `json:"sandbox_id"`
	Src       string `json:"src" jsonschema_description:"Absolute path in the guest."`
	Dst       string `json:"dst" jsonschema_description:"Absolute path in the guest; its folder must exist."`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema_description:"Replaces what is at dst."`
}

type moveResponse struct {
	Moved bool `json:"moved"`
}

// moveFile renames a path of a guest.
func (d *Daemon) moveFile(ctx context.Context, req moveRequest) (moveResponse, error) {
	if err := checkPath(req.Dst); err != nil {
		return moveResponse{}, err
	}
	e, err := d.claimPath(req.SandboxID, req.Src)
	if err != nil {
		return moveResponse{}, err
	}
	err = e.machine.Move(ctx, MoveSpec{From: req.Src, To: req.Dst, Overwrite: req.Overwrite})
	if err != nil {
		return moveResponse{}, moveFault(err, req)
	}
	return moveResponse{Moved: true}, nil
}

// moveFault names the one of the two paths that an error is about.
func moveFault(err error, req moveRequest) *fault {
	switch {
	case errors.Is(err, ErrParentMissing):
		return folderMissing(path.Dir(req.Dst))
	case errors.Is(err, ErrExists), errors.Is(err, ErrNotEmpty), errors.Is(err, ErrWrongType):
		return machineFault(err, req.Dst)
	}
	return machineFault(err, req.Src)
}
