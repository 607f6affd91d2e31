package iii

import (
	"context"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// row is one sandbox of sandbox::list (contracts/iii-sandbox.md §3.5).
type row struct {
	SandboxID     string `json:"sandbox_id"`
	Name          string `json:"name"`
	Image         string `json:"image"`
	AgeSecs       int64  `json:"age_secs"`
	ExecInFlight  int    `json:"exec_in_flight"`
	ExecSlotsFree int    `json:"exec_slots_free"`
	Stopped       bool   `json:"stopped"`
	// Isolation comes from the embedded daemon only.
	Isolation string `json:"isolation"`
}

// empty is the request of functions without fields; null would be refused (§1).
type empty struct{}

// List implements sandbox.Provider.
func (p *Provider) List(ctx context.Context) ([]sandbox.Info, error) {
	type response struct {
		Sandboxes []row `json:"sandboxes"`
	}
	answer, err := invoke[response](ctx, p, listDeadline, "sandbox::list", reads, empty{})
	if err != nil {
		return nil, err
	}
	infos := make([]sandbox.Info, 0, len(answer.Sandboxes))
	for _, r := range answer.Sandboxes {
		infos = append(infos, sandbox.Info{
			ID: sandbox.NewID(r.SandboxID), Name: r.Name, Image: r.Image,
			Age:          time.Duration(r.AgeSecs) * time.Second,
			ExecInFlight: r.ExecInFlight, ExecSlotsFree: r.ExecSlotsFree,
			Stopped: r.Stopped, Isolation: r.Isolation,
		})
	}
	return infos, nil
}

// Capabilities implements sandbox.Provider. A daemon that does not say that its
// images are private is taken to share them: the real one does (§6.1).
func (p *Provider) Capabilities(ctx context.Context) (sandbox.Capabilities, error) {
	type response struct {
		PrivateImages bool   `json:"private_images"`
		Isolation     string `json:"isolation"`
	}
	answer, err := invoke[response](ctx, p, listDeadline, "sandbox::catalog::list", reads, empty{})
	if err != nil {
		return sandbox.Capabilities{}, err
	}
	return sandbox.Capabilities{PrivateImages: answer.PrivateImages, Isolation: answer.Isolation}, nil
}
