package prepare

import (
	"context"
	"errors"

	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// AgentPlanter puts the operator's agent into a sandbox; *runner.Runner is one.
type AgentPlanter interface {
	Prepare(ctx context.Context, id sandbox.ID) (wire.Init, error)
}

// WithAgent lets the agent act, and plants it first if the sandbox does not have
// it: one that a former version of the operator made has the agent of that
// version until it is replaced. The act is repeated only if nothing was started.
func WithAgent(ctx context.Context, planter AgentPlanter, id sandbox.ID, act func() error) error {
	err := act()
	if !lacksAgent(err) {
		return err
	}
	if _, err := planter.Prepare(ctx, id); err != nil {
		return err
	}
	return act()
}

// exitMissing is the daemon's exit code for a program that is not there
// (contracts/iii-sandbox.md §3.3). The agent never exits with it.
const exitMissing = 127

func lacksAgent(err error) bool {
	var agent *runner.AgentError
	return errors.As(err, &agent) && agent.ExitCode == exitMissing
}
