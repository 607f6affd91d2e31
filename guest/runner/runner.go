// Package runner is the operator's side of the agent: it boots sandboxes with
// the agent in them and runs the agent's subcommands there, one exec each but for
// calls that go over links.
package runner

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner/link"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Runner runs the agent in the sandboxes of one provider. It may be used
// concurrently.
type Runner struct {
	provider sandbox.Provider
	program  guest.AgentProgram
	// plain are images that hold no agent.
	plain imageSet

	// Warm lets guests keep processes ready, and calls use them. It must not
	// change once the runner is used.
	Warm bool
	// Links deliver calls where they are the faster way; nil has each call executed.
	// It too must not change any more.
	Links *link.Set
	// Metrics counts the calls; nil counts nothing.
	Metrics *Metrics
}

// New returns a runner for a provider and an agent.
func New(provider sandbox.Provider, program guest.AgentProgram) *Runner {
	return &Runner{provider: provider, program: program}
}

// AgentDigest is the digest of the agent that this runner plants.
func (r *Runner) AgentDigest() string { return r.program.Digest }

// Plant puts a function's source in place and checks that it loads and has its
// handler. What is wrong with the source is a *wire.Failure.
func (r *Runner) Plant(ctx context.Context, id sandbox.ID, req wire.PlantRequest) error {
	req.Warm = r.Warm
	reply, err := r.exchange(ctx, id, r.program.Plant(req))
	if err == nil && reply.Error != nil {
		return reply.Error
	}
	return err
}

// Unplant removes a source; one that is not there is no error.
func (r *Runner) Unplant(ctx context.Context, id sandbox.ID, digest string) error {
	reply, err := r.exchange(ctx, id, r.program.Unplant(wire.UnplantRequest{SourceDigest: digest}))
	if err == nil && reply.Error != nil {
		return reply.Error
	}
	return err
}

// Run runs a whole program. What the program did is in the reply; an error
// means that the program may not have run, but for a *ResultLostError.
func (r *Runner) Run(ctx context.Context, id sandbox.ID, req wire.RunRequest) (wire.Reply, error) {
	return r.exchange(ctx, id, r.program.Run(req))
}

// NewToken returns a token for a run or call that Cancel can end: 128 random bits.
func NewToken() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// Install installs packages for all programs of the sandbox. How the installer
// fared is in the reply's Run.
func (r *Runner) Install(ctx context.Context, id sandbox.ID, req wire.InstallRequest) (wire.Reply, error) {
	return r.exchange(ctx, id, r.program.Install(req))
}

// Setup runs one command line of the shell. What it did is in the reply's Run.
func (r *Runner) Setup(ctx context.Context, id sandbox.ID, req wire.SetupRequest) (wire.Reply, error) {
	return r.exchange(ctx, id, r.program.Setup(req))
}

func (r *Runner) exchange(ctx context.Context, id sandbox.ID, cmd guest.Command) (wire.Reply, error) {
	reply, err := r.execute(ctx, id, cmd)
	if err != nil {
		return wire.Reply{}, err
	}
	return r.withResult(ctx, id, reply)
}

// execute is one execution of the agent.
func (r *Runner) execute(ctx context.Context, id sandbox.ID, cmd guest.Command) (wire.Reply, error) {
	cmd, err := r.spill(ctx, id, cmd)
	if err != nil {
		return wire.Reply{}, err
	}
	result, err := r.provider.Exec(ctx, id, sandbox.ExecRequest{
		Argv: cmd.Argv, Stdin: cmd.Stdin, Timeout: cmd.Timeout, Workdir: "/",
	})
	if err != nil {
		return wire.Reply{}, err
	}
	reply, err := guest.ParseReply(result.Stdout)
	if err != nil {
		return wire.Reply{}, &AgentError{ExitCode: result.ExitCode, Stderr: tail(result.Stderr), Err: err}
	}
	return reply, nil
}

// withResult puts a result into the reply that did not fit it.
func (r *Runner) withResult(ctx context.Context, id sandbox.ID, reply wire.Reply) (wire.Reply, error) {
	if reply.ResultFile == nil {
		return reply, nil
	}
	var err error
	reply.Result, err = r.fetch(ctx, id, reply.ResultFile)
	reply.ResultFile = nil
	return reply, err
}

// spill moves a large request into a file, which the agent removes: an exec's
// input travels as base64 in one bus frame.
func (r *Runner) spill(ctx context.Context, id sandbox.ID, cmd guest.Command) (guest.Command, error) {
	if !cmd.NeedsFile() {
		return cmd, nil
	}
	file := r.program.RequestPath(uuid.NewString())
	cmd, content := cmd.WithRequestFile(file)
	err := r.provider.WriteFile(ctx, id, sandbox.WriteFileRequest{
		Path: file, Mode: 0o600, Content: bytes.NewReader(content), Size: int64(len(content)),
	})
	if err != nil {
		return cmd, fmt.Errorf("writing the request: %w", err)
	}
	return cmd, nil
}

// fetch reads a result that was too large for the reply, checks it and removes
// it.
func (r *Runner) fetch(ctx context.Context, id sandbox.ID, file *wire.ResultFile) ([]byte, error) {
	if file.Size > wire.MaxResultBytes {
		r.discard(ctx, id, file.Path)
		return nil, wire.Failf(wire.ResultTooLarge, "the result has %d bytes, %d are allowed", file.Size, wire.MaxResultBytes)
	}
	reader, err := r.provider.ReadFile(ctx, id, file.Path)
	if err != nil {
		return nil, &ResultLostError{Err: err}
	}
	defer reader.Close() // the digest below proves the content
	content, err := io.ReadAll(io.LimitReader(reader, file.Size+1))
	if err != nil {
		return nil, &ResultLostError{Err: err}
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != file.SHA256 {
		return nil, &ResultLostError{Err: errors.New("the file is not the one that the agent wrote")}
	}
	r.discard(ctx, id, file.Path)
	return content, nil
}

// discard removes a fetched result. Its failure changes nothing for the caller:
// the agent removes forgotten results itself.
func (r *Runner) discard(ctx context.Context, id sandbox.ID, file string) {
	cmd := r.program.Discard(wire.DiscardRequest{Path: file})
	_, _ = r.provider.Exec(ctx, id, sandbox.ExecRequest{Argv: cmd.Argv, Stdin: cmd.Stdin, Timeout: cmd.Timeout, Workdir: "/"})
}
