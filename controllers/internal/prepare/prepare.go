package prepare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	// Timeout bounds all of a preparation, stepTimeout one step of it, which leaves
	// room below the daemon's own limit of 300 s (contracts/iii-sandbox.md §8).
	Timeout     = 10 * time.Minute
	stepTimeout = 290 * time.Second
	// defaultMode is that of files which name none.
	defaultMode = 0o644
)

// Guest runs the agent's subcommands; *runner.Runner is one.
type Guest interface {
	Install(ctx context.Context, id sandbox.ID, req wire.InstallRequest) (wire.Reply, error)
	Setup(ctx context.Context, id sandbox.ID, req wire.SetupRequest) (wire.Reply, error)
}

// Writer writes files; sandbox.Provider is one.
type Writer interface {
	WriteFile(ctx context.Context, id sandbox.ID, req sandbox.WriteFileRequest) error
}

// Prepare carries out a plan. Doing it again is harmless if the setup commands
// are. What the plan itself causes is an *Error; any other error is the back
// end's, and says nothing of the plan.
func Prepare(ctx context.Context, guest Guest, writer Writer, id sandbox.ID, p Plan) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if err := p.writeFiles(ctx, writer, id); err != nil {
		return err
	}
	if err := p.install(ctx, guest, id); err != nil {
		return err
	}
	return p.setUp(ctx, guest, id)
}

func (p *Plan) writeFiles(ctx context.Context, writer Writer, id sandbox.ID) error {
	for _, f := range p.Files {
		mode, err := fileMode(f.Mode)
		if err != nil {
			return &Error{Step: StepFiles, Subject: f.Path, Problem: err.Error()}
		}
		err = writer.WriteFile(ctx, id, sandbox.WriteFileRequest{
			Path: f.Path, Mode: mode, Content: bytes.NewReader(f.Content), Size: int64(len(f.Content)),
		})
		var problem *sandbox.FileError
		if errors.As(err, &problem) || sandbox.IsRejected(err) {
			return &Error{Step: StepFiles, Subject: f.Path, Problem: redact.Text(err.Error(), p.Secrets)}
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.Path, err)
		}
	}
	return nil
}

func fileMode(octal string) (uint32, error) {
	if octal == "" {
		return defaultMode, nil
	}
	mode, err := strconv.ParseUint(octal, 8, 12)
	if err != nil {
		return 0, fmt.Errorf("the mode %q is not octal", octal)
	}
	return uint32(mode), nil
}

func (p *Plan) install(ctx context.Context, guest Guest, id sandbox.ID) error {
	if len(p.Packages) == 0 {
		return nil
	}
	reply, err := guest.Install(ctx, id, wire.InstallRequest{
		Language: p.Language, Packages: p.Packages, TimeoutMs: limit(ctx).Milliseconds(),
	})
	return p.judge(StepPackages, blamed(p.Packages, reply.Run), reply, err)
}

func (p *Plan) setUp(ctx context.Context, guest Guest, id sandbox.ID) error {
	for i, command := range p.Setup {
		reply, err := guest.Setup(ctx, id, wire.SetupRequest{Command: command, TimeoutMs: limit(ctx).Milliseconds()})
		if err := p.judge(StepSetup, fmt.Sprintf("command %d", i+1), reply, err); err != nil {
			return err
		}
	}
	return nil
}

// answerMargin is what the answer of a step may take after its end.
const answerMargin = 5 * time.Second

// limit is how long the next step may take: its own limit, or what is left of the
// whole.
func limit(ctx context.Context) time.Duration {
	end, bounded := ctx.Deadline()
	if !bounded {
		return stepTimeout
	}
	return max(min(stepTimeout, time.Until(end)-answerMargin), time.Millisecond)
}

// judge tells what the step did from what kept it from being done.
func (p *Plan) judge(step Step, subject string, reply wire.Reply, err error) error {
	failed := &Error{Step: step, Subject: subject}
	switch run := reply.Run; {
	case sandbox.IsTimeout(err):
		failed.Problem = problemLate
	case err != nil:
		return fmt.Errorf("%s: %w", step, err)
	case reply.Error != nil && reply.Error.Kind == wire.Internal:
		return fmt.Errorf("%s: %w", step, reply.Error)
	case reply.Error != nil:
		failed.Problem = redact.Text(reply.Error.Error(), p.Secrets)
	case run == nil:
		return fmt.Errorf("%s: the agent gave no account of it", step)
	case run.TimedOut:
		failed.Problem, failed.Output = problemLate, p.output(run)
	case run.ExitCode != 0:
		failed.Problem, failed.Output = fmt.Sprintf("exited with %d", run.ExitCode), p.output(run)
	default:
		return nil
	}
	return failed
}

// problemLate is said of a step that was ended. It names both limits.
const problemLate = "did not end in time: one step may take 290 s, all of them 10 min"
