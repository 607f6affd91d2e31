package iii

import (
	"context"
	"errors"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// createRequest is that of contracts/iii-sandbox.md §3.1; zero fields are left
// to the daemon.
type createRequest struct {
	Image           string            `json:"image"`
	CPUs            int               `json:"cpus,omitempty"`
	MemoryMiB       int               `json:"memory_mb,omitempty"`
	Name            string            `json:"name,omitempty"`
	Network         bool              `json:"network"`
	IdleTimeoutSecs int64             `json:"idle_timeout_secs,omitempty"`
	Env             map[string]string `json:"env,omitempty"`
}

// Create implements sandbox.Provider.
func (p *Provider) Create(ctx context.Context, req sandbox.CreateRequest) (sandbox.ID, error) {
	type response struct {
		SandboxID string `json:"sandbox_id"`
	}
	answer, err := invoke[response](ctx, p, createDeadline, "sandbox::create", changes, createRequest{
		Image: req.Image, CPUs: req.CPUs, MemoryMiB: req.MemoryMiB, Name: req.Marker.String(),
		Network: req.Network, IdleTimeoutSecs: wholeSeconds(req.IdleTimeout), Env: req.Env,
	})
	if err != nil {
		return sandbox.ID{}, err
	}
	if answer.SandboxID == "" {
		return sandbox.ID{}, sandbox.NewUnknownOutcomeError(errors.New("the answer names no sandbox"))
	}
	return sandbox.NewID(answer.SandboxID), nil
}

// wholeSeconds rounds up, so that no lease becomes none.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
