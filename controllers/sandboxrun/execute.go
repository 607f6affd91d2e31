package sandboxrun

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/operations"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/capacity"
)

const (
	// bootAllowance is what queueing and boot may take beyond the program's own
	// limit (contracts/code-runner.md §8: creation has 300 s).
	bootAllowance = 300 * time.Second
	stopTimeout   = 30 * time.Second
)

// errCancelled is the cause with which the attempt of a cancelled run ends.
var errCancelled = errors.New("the run was cancelled")

// attempt is everything that one execution needs; nothing is looked up later.
type attempt struct {
	language sandboxv1alpha1.Language
	// runtime is set for a run in a SandboxRuntime, else create describes the
	// sandbox to make.
	runtime *publish.Runtime
	create  sandbox.CreateRequest
	// plan is what that sandbox needs before the program.
	plan    prepare.Plan
	digest  string
	request wire.RunRequest
	timeout time.Duration
	// secrets are values that must not show in what the status quotes.
	secrets  []string
	accepted time.Time
	// patient waits for capacity instead of failing at once.
	patient bool
}

// result is what became of an attempt.
type result struct {
	run     *wire.Run
	value   json.RawMessage
	took    time.Duration
	timings sandboxv1alpha1.RunTimings
	failure *failure
	secrets []string
	// delivered says that the bus caller has the result already.
	delivered bool
}

// failure is why a run has no exit code.
type failure struct {
	reason, message string
	// lost says that the sandbox went away under the program.
	lost bool
}

// execute runs the program, once. All of it is bounded by the program's limit
// and the allowance for boot and queue.
func (r *Reconciler) execute(ctx context.Context, a attempt) result {
	ctx, cancel := context.WithTimeout(ctx, a.limit())
	defer cancel()
	res := result{secrets: a.secrets}
	res.timings.QueueMilliseconds = max(r.Clock.Since(a.accepted).Milliseconds(), 0)
	var err error
	if a.runtime != nil {
		err = r.inRuntime(ctx, a, &res)
	} else {
		err = r.inOwnSandbox(ctx, a, &res)
	}
	switch run := res.run; {
	case err != nil:
		res.failure = explain(ctx, err)
	case run != nil && run.TimedOut:
		res.failure = &failure{reason: sandboxv1alpha1.SandboxRunTimeoutReason, message: "the program passed its deadline"}
	case run != nil && run.Canceled:
		res.failure = cancelled()
	}
	return res
}

// ticket says how the run stands in the queue for a place in the daemon. A bus
// caller is told at once that there is none, unless an idle sandbox can go.
func (a *attempt) ticket(waited *time.Duration) capacity.Ticket {
	ticket := capacity.Ticket{
		Class: capacity.Always(capacity.Run), Since: a.accepted, Displace: true,
		OnPlace: func(d time.Duration) { *waited = d },
	}
	if a.patient {
		ticket.Wait = a.limit()
	}
	return ticket
}

// limit bounds an attempt.
func (a *attempt) limit() time.Duration {
	limit := a.timeout + bootAllowance
	if !a.plan.IsEmpty() {
		limit += prepare.Timeout
	}
	return limit
}

func (r *Reconciler) inOwnSandbox(ctx context.Context, a attempt, res *result) error {
	var waited time.Duration
	booted, err := r.Runner.Boot(capacity.WithTicket(ctx, a.ticket(&waited)), a.create)
	if err != nil {
		r.Fleet.Poke()
		return err
	}
	res.timings.QueueMilliseconds += waited.Milliseconds()
	res.timings.BootMilliseconds = (booted.Create - waited).Milliseconds()
	res.timings.PlantMilliseconds = booted.Prepare.Milliseconds()
	defer r.destroy(ctx, booted.ID, res)
	if err := r.outfit(ctx, booted.ID, a, res); err != nil {
		return err
	}
	return r.program(ctx, booted.ID, a, res)
}

// outfit makes the sandbox fit for the program.
func (r *Reconciler) outfit(ctx context.Context, id sandbox.ID, a attempt, res *result) error {
	if a.plan.IsEmpty() {
		return nil
	}
	begin := r.Clock.Now()
	err := prepare.Prepare(ctx, r.Runner, r.Provider, id, a.plan)
	res.timings.PlantMilliseconds += r.Clock.Since(begin).Milliseconds()
	return err
}

// destroy stops the run's sandbox, also after a cancellation. One that cannot be
// stopped now is found by its marker in the sweep.
func (r *Reconciler) destroy(ctx context.Context, id sandbox.ID, res *result) {
	begin := r.Clock.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := sandbox.IgnoreNotFound(r.Provider.Stop(ctx, id)); err != nil {
		r.Fleet.Poke()
	}
	res.timings.CleanupMilliseconds = r.Clock.Since(begin).Milliseconds()
}

func (r *Reconciler) program(ctx context.Context, id sandbox.ID, a attempt, res *result) error {
	begin := r.Clock.Now()
	reply, err := r.Runner.Run(ctx, id, a.request)
	res.timings.ExecMilliseconds = r.Clock.Since(begin).Milliseconds()
	if err != nil {
		return err
	}
	if reply.Error != nil {
		return reply.Error
	}
	res.run, res.value = reply.Run, reply.Result
	res.took = time.Duration(reply.DurationMs) * time.Millisecond
	return nil
}

// explain turns an error of the attempt into what users and callers are told. No
// text holds an id.
func explain(ctx context.Context, err error) *failure {
	cause := context.Cause(ctx)
	unfit := prepare.AsError(err)
	switch {
	case errors.Is(cause, errCancelled), errors.Is(cause, errDeleted):
		return cancelled()
	case errors.Is(cause, operations.ErrStopped):
		return &failure{reason: sandboxv1alpha1.SandboxRunInterruptedReason,
			message: "the operator was stopped while the program ran; it may have had effects and is not repeated"}
	case unfit != nil:
		return &failure{reason: sandboxv1alpha1.SandboxRunPrepareFailedReason, message: "spec.runtime." + unfit.Error()}
	case sandbox.IsTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return &failure{reason: sandboxv1alpha1.SandboxRunTimeoutReason, message: "the program passed its deadline"}
	case sandbox.IsCapacity(err), errors.Is(err, publish.ErrQueueFull), errors.Is(err, errNoTurn):
		return &failure{reason: sandboxv1alpha1.CapacityReason, message: err.Error()}
	case sandbox.IsNotFound(err), errors.Is(err, errSandboxLost), errors.Is(err, publish.ErrRuntimeGone):
		return &failure{reason: sandboxv1alpha1.SandboxRunSandboxFailedReason, lost: true,
			message: "the sandbox was lost"}
	default:
		return &failure{reason: sandboxv1alpha1.SandboxRunSandboxFailedReason, message: err.Error()}
	}
}
