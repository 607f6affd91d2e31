package daemon

import "context"

// modeRequest is that of sandbox::fs::chmod (contracts/iii-sandbox.md §4).
type modeRequest struct {
	SandboxID string  `json:"sandbox_id"`
	Path      string  `json:"path" jsonschema_description:"Absolute path in the guest."`
	Mode      string  `json:"mode" jsonschema_description:"Octal mode."`
	UID       *uint32 `json:"uid,omitempty" jsonschema_description:"New owner."`
	GID       *uint32 `json:"gid,omitempty" jsonschema_description:"New group."`
	Recursive bool    `json:"recursive,omitempty" jsonschema_description:"Changes all below a folder too, without links."`
}

type modeResponse struct {
	Updated int `json:"updated" jsonschema_description:"Number of changed paths."`
}

// changeMode sets mode and owner of paths of a guest.
func (d *Daemon) changeMode(ctx context.Context, req modeRequest) (modeResponse, error) {
	mode, err := parseMode(req.Mode)
	if err != nil {
		return modeResponse{}, err
	}
	e, err := d.claimPath(req.SandboxID, req.Path)
	if err != nil {
		return modeResponse{}, err
	}
	updated, err := e.machine.ChangeMode(ctx, ModeSpec{
		Path: req.Path, Mode: mode, UID: req.UID, GID: req.GID, Recursive: req.Recursive,
	})
	if err != nil {
		return modeResponse{}, machineFault(err, req.Path)
	}
	return modeResponse{Updated: updated}, nil
}
