package runner

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// stopTimeout bounds the stop of a sandbox whose boot failed halfway.
const stopTimeout = 30 * time.Second

// Booted is a sandbox with the agent in it.
type Booted struct {
	ID   sandbox.ID
	Init wire.Init
	// Create and Prepare are how long the two stages took.
	Create, Prepare time.Duration
}

// Boot creates a sandbox, writes the agent into it and prepares it. It is one
// unit: if a stage after the creation fails, the sandbox is stopped again, also
// when the context has ended. An UnknownOutcomeError means that a sandbox with
// the request's marker may exist all the same.
func (r *Runner) Boot(ctx context.Context, req sandbox.CreateRequest) (Booted, error) {
	start := time.Now()
	id, err := r.provider.Create(ctx, req)
	if err != nil {
		return Booted{}, fmt.Errorf("creating the sandbox: %w", err)
	}
	created := time.Now()
	init, err := r.prepare(ctx, id, req.Image)
	if err != nil {
		r.rollback(ctx, id)
		return Booted{}, err
	}
	return Booted{ID: id, Init: init, Create: created.Sub(start), Prepare: time.Since(created)}, nil
}

// Prepare puts the agent into a sandbox and lets it unpack. Doing it again is
// harmless.
func (r *Runner) Prepare(ctx context.Context, id sandbox.ID) (wire.Init, error) {
	return r.prepare(ctx, id, "")
}

func (r *Runner) prepare(ctx context.Context, id sandbox.ID, image string) (wire.Init, error) {
	capabilities, err := r.provider.Capabilities(ctx)
	if err != nil {
		return wire.Init{}, fmt.Errorf("reading the capabilities of the daemon: %w", err)
	}
	request := wire.InitRequest{SharedImage: !capabilities.PrivateImages, Warm: r.Warm}
	if capabilities.PrivateImages && r.isBaked(ctx, id, image) {
		// Whatever is wrong with what the image brings, a planted agent makes up for it.
		if init, err := r.init(ctx, id, r.program.InitBaked(request)); err == nil {
			return init, nil
		}
	}
	err = r.provider.WriteFile(ctx, id, sandbox.WriteFileRequest{
		Path: r.program.Path(), Mode: 0o755,
		Content: bytes.NewReader(r.program.Bytes), Size: int64(len(r.program.Bytes)),
	})
	if err != nil {
		return wire.Init{}, fmt.Errorf("writing the agent: %w", err)
	}
	return r.init(ctx, id, r.program.Init(request))
}

func (r *Runner) init(ctx context.Context, id sandbox.ID, command guest.Command) (wire.Init, error) {
	reply, err := r.exchange(ctx, id, command)
	switch {
	case err != nil:
		return wire.Init{}, fmt.Errorf("preparing the guest: %w", err)
	case reply.Error != nil:
		return wire.Init{}, fmt.Errorf("preparing the guest: %w", reply.Error)
	case reply.Init == nil:
		return wire.Init{}, &AgentError{Err: fmt.Errorf("the reply to init describes no guest")}
	}
	if reply.Init.AgentDigest != r.program.Digest {
		return wire.Init{}, &AgentError{Err: fmt.Errorf("the agent in the guest is not the one that was written")}
	}
	return *reply.Init, nil
}

func (r *Runner) rollback(ctx context.Context, id sandbox.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	// A sandbox that cannot be stopped now is found by its marker in the sweep.
	_ = r.provider.Stop(ctx, id)
}
