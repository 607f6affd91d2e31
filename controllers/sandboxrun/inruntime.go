package sandboxrun

import (
	"context"
	"errors"
	"time"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	// minTurnWait is the least that a bus caller's run waits for its turn in a
	// runtime, however short its own limit is.
	minTurnWait = 5 * time.Second
	// busyPause is the distance of attempts while the daemon refuses to run one
	// more program than it runs already.
	busyPause = 20 * time.Millisecond
)

// errNoTurn is the cause with which the wait of a bus caller's run ends. Nothing
// was started.
var errNoTurn = errors.New("other programs kept the runtime busy for longer than this run waits for its turn; it was not started, try again")

// errSandboxLost says that a sandbox which took programs is gone or dead. One that
// could not be made has an error of its own, with the daemon's diagnostic
// (contracts/code-runner.md §5.2).
var errSandboxLost = errors.New("the sandbox was lost")

// inRuntime takes a slot of the SandboxRuntime. A refusal from the daemon before
// the program began is tried again, for no longer than the program's own limit;
// nothing else is.
func (r *Reconciler) inRuntime(ctx context.Context, a attempt, res *result) error {
	waiting, leave := r.queue(ctx, a)
	defer leave()
	var until time.Time
	for {
		err := r.inSlot(ctx, waiting, a, res)
		if !sandbox.IsBusy(err) {
			return err
		}
		if until.IsZero() {
			until = r.Clock.Now().Add(a.timeout)
		}
		if !r.Clock.Now().Before(until) || !r.pause(ctx, busyPause) {
			return err
		}
	}
}

// queue bounds the wait for a slot of a bus caller's run, who waits for the
// answer: max(timeout, minTurnWait). It does not bound the boot of a runtime that
// has no sandbox yet, for which bootAllowance stands.
func (r *Reconciler) queue(ctx context.Context, a attempt) (waiting context.Context, leave context.CancelFunc) {
	if a.patient || len(r.Table.Instances(*a.runtime)) == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, max(a.timeout, minTurnWait), errNoTurn)
}

// inSlot waits for a slot and runs the program in it.
func (r *Reconciler) inSlot(ctx, waiting context.Context, a attempt, res *result) error {
	lease, err := r.Table.Acquire(waiting, *a.runtime, "")
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			return context.Cause(waiting)
		}
		return err
	}
	defer lease.Release()
	lease.RunsAs(a.request.WorkerName, nil)
	err = prepare.WithAgent(ctx, r.Runner, lease.ID, func() error { return r.program(ctx, lease.ID, a, res) })
	if err != nil && ctx.Err() != nil {
		r.kill(ctx, lease.ID, a.request.Token)
	}
	if sandbox.IsNotFound(err) || sandbox.IsDead(err) {
		lease.Lost()
		return errSandboxLost
	}
	return err
}

const (
	killTimeout = 10 * time.Second
	// killPause is the distance of attempts while all places of the sandbox are
	// taken.
	killPause = 50 * time.Millisecond
)

// kill ends a program in a sandbox that stays: the run was cancelled or deleted,
// its caller went away, or the operator stops. The agent keeps the program's own
// deadline, so a failure costs no more than the rest of that.
func (r *Reconciler) kill(ctx context.Context, id sandbox.ID, token string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer stop()
	for sandbox.IsBusy(r.Runner.Cancel(ctx, id, token)) && r.pause(ctx, killPause) {
	}
}

func (r *Reconciler) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-r.Clock.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
