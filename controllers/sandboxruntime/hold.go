package sandboxruntime

import (
	"errors"
	"time"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// failedBoot is why boots fail and when to try again.
type failedBoot struct {
	err error
	// trigger is what the boot was tried for; see scope.trigger.
	trigger string
	// count is the number of failures in a row for that trigger.
	count int
	// retryAt is before when no boot for that trigger starts.
	retryAt time.Time
}

// fail remembers a failed boot.
func (r *runtimeMemory) fail(trigger string, err error, now time.Time) {
	count := 1
	if r.failure != nil && r.failure.trigger == trigger {
		count = r.failure.count + 1
	}
	delay := retryDelay(count)
	switch {
	case prepare.AsError(err) != nil:
		delay = crashDelay(count)
	case sandbox.IsUnavailable(err), sandbox.IsUnknownOutcome(err):
		delay = min(delay, awayDelay)
	}
	r.failure = &failedBoot{err: err, trigger: trigger, count: count, retryAt: now.Add(delay)}
}

// retryDelay doubles from half a second to a minute.
func retryDelay(failures int) time.Duration {
	return doubled(500*time.Millisecond, time.Minute, failures)
}

// awayDelay is the longest wait for a daemon that did not answer a boot: it may be
// back at any moment, and callers wait.
const awayDelay = 5 * time.Second

// crashDelay doubles from 10 s to 5 minutes: what fails by its own text, or dies by
// its own doing, costs a sandbox each time.
func crashDelay(failures int) time.Duration {
	return doubled(10*time.Second, 5*time.Minute, failures)
}

func doubled(delay, most time.Duration, failures int) time.Duration {
	for ; failures > 1 && delay < most; failures-- {
		delay *= 2
	}
	return min(delay, most)
}

// holdBack says why boots fail, and reports whether the next one has to wait: for
// a while that grows, or for a change if only that helps.
func (r *Reconciler) holdBack(sc *scope) bool {
	f := sc.known.failure
	if f == nil || f.trigger != sc.trigger() {
		return false
	}
	if r.deletesWhenIdle(sc.obj) {
		// Its caller waits for the first run and is told at once, as for a run in a
		// sandbox of its own.
		r.Table.Refuse(sc.runtime, f.err)
	}
	reason, message, final := bootFailure(f.err)
	message = redact.Text(message, sc.fitting.Secrets)
	if final {
		sc.conclude(conditions.Stalled, reason, message)
		return true
	}
	sc.conclude(conditions.Waiting, reason, message)
	left := f.retryAt.Sub(r.Clock.Now())
	if left <= 0 {
		return false
	}
	sc.requeueIn(left)
	return true
}

const (
	messageNoRoom    = "the sandbox daemon takes no further sandbox now"
	messageUnfitting = "no sandbox could be prepared, and each attempt waits longer, up to 5 minutes: spec."
)

// bootFailure says what a failed boot means for the object.
func bootFailure(err error) (reason, message string, final bool) {
	var rejected *sandbox.RejectedError
	var agent *runner.AgentError
	var failure *wire.Failure
	if unfit := prepare.AsError(err); unfit != nil {
		return unfitReason(unfit.Step), messageUnfitting + unfit.Error(), false
	}
	switch {
	case errors.As(err, &rejected) && rejected.Code == "S100":
		return sandboxv1alpha1.SandboxRuntimeImageRejectedReason,
			"the sandbox daemon does not offer the image; name one of its catalog and allowlist", true
	case errors.As(err, &rejected):
		return sandboxv1alpha1.InvalidSpecReason, "the sandbox daemon refused the sandbox: " + rejected.Error(), true
	case sandbox.IsCapacity(err):
		return sandboxv1alpha1.CapacityReason, messageNoRoom, false
	case sandbox.IsUnavailable(err), sandbox.IsUnknownOutcome(err):
		return sandboxv1alpha1.DaemonUnavailableReason, "the sandbox daemon did not answer; the boot is repeated", false
	case errors.As(err, &agent), errors.As(err, &failure):
		return sandboxv1alpha1.SandboxRuntimeGuestFailedReason, "the agent does not work in the sandbox: " + err.Error(), false
	default:
		return sandboxv1alpha1.SandboxRuntimeBootFailedReason, err.Error(), false
	}
}

func unfitReason(step prepare.Step) string {
	switch step {
	case prepare.StepFiles:
		return sandboxv1alpha1.SandboxRuntimeFilesFailedReason
	case prepare.StepPackages:
		return sandboxv1alpha1.SandboxRuntimePackagesFailedReason
	default:
		return sandboxv1alpha1.SandboxRuntimeSetupFailedReason
	}
}
