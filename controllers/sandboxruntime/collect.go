package sandboxruntime

import (
	"context"
	"errors"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// collect takes over what finished operations brought.
func (r *Reconciler) collect(_ context.Context, sc *scope) (bool, error) {
	for _, i := range sc.known.list() {
		switch i.State {
		case sandboxv1alpha1.InstanceStopping:
			r.collectStop(sc, i)
		case sandboxv1alpha1.InstanceBooting:
			r.collectBoot(sc, i)
		}
	}
	return false, nil
}

func (r *Reconciler) collectBoot(sc *scope, i *instance) {
	done, ok := r.boots.Take(sc.operation(i))
	switch {
	case !ok:
		return
	case done.Err == nil:
		r.admit(sc, i, done.Result)
		return
	}
	sc.known.remove(i.Name)
	r.Fleet.Poke()
	if !i.retired {
		r.Metrics.bootFailed(done.Err)
		sc.known.fail(i.trigger, done.Err, r.Clock.Now())
	}
}

// admit lets a booted sandbox take calls. Its idle time begins now: one that took
// long to come must not go at once.
func (r *Reconciler) admit(sc *scope, i *instance, booted runner.Booted) {
	r.Metrics.booted(booted)
	sc.known.failure = nil
	sc.known.verified = true
	i.retired = false
	r.Table.Use(sc.runtime)
	i.id, i.since, i.touched = booted.ID, r.Clock.Now(), r.Clock.Now()
	i.State = sandboxv1alpha1.InstanceReady
	r.Table.SetInstance(sc.runtime, publish.Instance{Name: i.Name, ID: booted.ID, Slots: defaultSlots})
	r.Fleet.Poke()
}

// defaultSlots is the daemon's default of programs per sandbox, until its list
// says better (contracts/iii-sandbox.md §3.3).
const defaultSlots = 4

func (r *Reconciler) collectStop(sc *scope, i *instance) {
	done, ok := r.stops.Take(sc.operation(i))
	if !ok {
		return
	}
	if sandbox.IgnoreNotFound(done.Err) != nil {
		i.stopAfter = r.Clock.Now().Add(stopRetry)
		return
	}
	sc.known.remove(i.Name)
	r.Table.RemoveInstance(sc.runtime, i.Name)
}

// bootFailure says what a failed boot means for the object.
func bootFailure(err error) (reason, message string, final bool) {
	var rejected *sandbox.RejectedError
	var agent *runner.AgentError
	var failure *wire.Failure
	switch {
	case errors.As(err, &rejected) && rejected.Code == "S100":
		return sandboxv1alpha1.SandboxRuntimeImageRejectedReason,
			"the sandbox daemon does not offer the image; name one of its catalog and allowlist", true
	case errors.As(err, &rejected):
		return sandboxv1alpha1.InvalidSpecReason, "the sandbox daemon refused the sandbox: " + rejected.Error(), true
	case sandbox.IsCapacity(err):
		return sandboxv1alpha1.CapacityReason, "the sandbox daemon takes no further sandbox now", false
	case sandbox.IsUnavailable(err), sandbox.IsUnknownOutcome(err):
		return sandboxv1alpha1.DaemonUnavailableReason, "the sandbox daemon did not answer; the boot is repeated", false
	case errors.As(err, &agent), errors.As(err, &failure):
		return sandboxv1alpha1.SandboxRuntimeGuestFailedReason, "the agent does not work in the sandbox: " + err.Error(), false
	default:
		return sandboxv1alpha1.SandboxRuntimeBootFailedReason, err.Error(), false
	}
}
