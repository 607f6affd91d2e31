package iii

import (
	"context"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// handle is a request about a sandbox as a whole.
type handle struct {
	SandboxID string `json:"sandbox_id"`
}

// Stop implements sandbox.Provider (contracts/iii-sandbox.md §3.4).
func (p *Provider) Stop(ctx context.Context, id sandbox.ID) error {
	_, err := invoke[empty](ctx, p, stopDeadline, "sandbox::stop", changes, handle{id.Reveal()})
	return err
}

// Touch implements sandbox.Provider: any file call resets the idle clock, and
// stat of the root takes no exec slot (§5).
func (p *Provider) Touch(ctx context.Context, id sandbox.ID) error {
	_, err := invoke[empty](ctx, p, fileDeadline, "sandbox::fs::stat", reads, fileRequest{id.Reveal(), "/"})
	return err
}
