package daemon

import "context"

// stopRequest is that of sandbox::stop (contracts/iii-sandbox.md §3.4).
type stopRequest struct {
	SandboxID string `json:"sandbox_id"`
	Wait      bool   `json:"wait,omitempty" jsonschema_description:"Accepted without effect."`
}

type stopResponse struct {
	SandboxID string `json:"sandbox_id"`
	Stopped   bool   `json:"stopped"`
}

// stop ends a sandbox; its running programs are killed, not drained.
func (d *Daemon) stop(ctx context.Context, req stopRequest) (stopResponse, error) {
	if err := checkID(req.SandboxID); err != nil {
		return stopResponse{}, err
	}
	e, mine, err := d.registry.claimStop(req.SandboxID)
	if err != nil {
		return stopResponse{}, err
	}
	if mine {
		if err := d.halt(ctx, e); err != nil {
			return stopResponse{}, newFault(codeBoot, "VM boot failed: stopping the guest: %v", err)
		}
	}
	return stopResponse{SandboxID: req.SandboxID, Stopped: true}, nil
}
