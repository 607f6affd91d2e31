package sandboxrun

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
)

// finish writes the end of a run into its status.
func (r *Reconciler) finish(sc *scope, res result) (bool, error) {
	status := &sc.obj.Status
	now := metav1.NewTime(r.Clock.Now())
	status.CompletionTime = &now
	if res.timings != (sandboxv1alpha1.RunTimings{}) {
		status.Timings = &res.timings
	}
	if res.run != nil {
		r.show(sc, res)
	}
	reason, message := verdict(res)
	// The guest, or a daemon that repeats a request, may have put one into it.
	message = redact.Text(message, res.secrets)
	if sc.fromBus() && !res.delivered {
		// A run that fails before its attempt has nobody else who tells its caller.
		// Delivering twice would keep the result for a caller who has left.
		r.Results.deliver(sc.obj.UID, res.toOutcome())
	}
	if reason == sandboxv1alpha1.SandboxRunCompletedReason {
		status.Phase = sandboxv1alpha1.RunSucceeded
		conditions.Set(sc.obj, sandboxv1alpha1.SandboxRunCompleteCondition, metav1.ConditionTrue, reason, message)
		return sc.conclude(conditions.Ready, reason, message)
	}
	status.Phase = sandboxv1alpha1.RunFailed
	sc.failed = true
	conditions.Set(sc.obj, sandboxv1alpha1.SandboxRunFailedCondition, metav1.ConditionTrue, reason, message)
	return sc.conclude(conditions.Stalled, reason, message)
}

func verdict(res result) (reason, message string) {
	switch {
	case res.failure != nil:
		return res.failure.reason, res.failure.message
	case res.run == nil:
		return sandboxv1alpha1.SandboxRunSandboxFailedReason, "the agent gave no account of the program"
	case res.run.ExitCode == 0:
		return sandboxv1alpha1.SandboxRunCompletedReason, "the program exited with 0"
	default:
		return sandboxv1alpha1.SandboxRunExitCodeReason, "the program exited with another code than 0; see status.exitCode"
	}
}

// show puts what the program left into the status: the end of its output with
// secrets taken out, and a small result. A bus run shows no output.
func (r *Reconciler) show(sc *scope, res result) {
	status := &sc.obj.Status
	if !res.run.TimedOut && !res.run.Canceled {
		code := int32(res.run.ExitCode) //nolint:gosec // an exit code has 8 bits
		success := code == 0
		status.ExitCode, status.Success = &code, &success
	}
	status.Truncated = res.run.StdoutTruncated || res.run.StderrTruncated
	if sc.fromBus() {
		return
	}
	var cut bool
	status.Stdout, cut = tail(redact.Text(res.run.Stdout, res.secrets), sandboxv1alpha1.MaxStatusStreamBytes)
	status.Truncated = status.Truncated || cut
	status.Stderr, cut = tail(redact.Text(res.run.Stderr, res.secrets), sandboxv1alpha1.MaxStatusStreamBytes)
	status.Truncated = status.Truncated || cut
	value, whole := redact.JSON(res.value, res.secrets)
	switch {
	case !whole, len(value) > sandboxv1alpha1.MaxStatusResultBytes:
		status.Truncated = true
	case len(value) > 0:
		status.Result = &apiextensionsv1.JSON{Raw: value}
	}
}
