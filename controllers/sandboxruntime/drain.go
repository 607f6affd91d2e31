package sandboxruntime

import (
	"slices"
	"time"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// maxDrain bounds how long the programs in a runtime that goes at a caller's wish, or
// with its functions, may go on: longer than any program's own limit.
const maxDrain = 300 * time.Second

// endsPrograms says whether a deletion ends the programs in a runtime. In one that
// a bus caller keeps, and in one that goes with its function, they come to their own
// end first (contracts/code-runner.md §4.3).
func (r *Reconciler) endsPrograms(sc *scope) bool {
	if !r.deletesWhenIdle(sc.obj) && sc.obj.Labels[sandboxv1alpha1.OwnLabel] == "" {
		return true
	}
	if sc.known.drained.IsZero() {
		sc.known.drained = r.Clock.Now()
	}
	return r.deletedFor(sc) > maxDrain
}

// inUse says that calls go on in a runtime whose last function has gone. Until they
// end it is left as it is, and a new function of the same prefix can use it. What
// others run in it does not keep it for ever.
func (r *Reconciler) inUse(sc *scope) bool {
	if sc.known.unusedSince.IsZero() {
		sc.known.unusedSince = r.Clock.Now()
	}
	if r.Table.Activity(sc.runtime).InFlight == 0 || r.Clock.Since(sc.known.unusedSince) > maxDrain {
		return false
	}
	sc.requeueIn(drainPoll)
	return true
}

// drains says that programs keep a sandbox from its stop, and notes the time.
func (m *runtimeMemory) drains(now time.Time) bool {
	ready := func(i *instance) bool { return i.State == sandboxv1alpha1.InstanceReady }
	if !slices.ContainsFunc(m.instances, ready) {
		return false
	}
	m.drained = now
	return true
}

// deletedFor is how long ago the deletion was asked for. The API server's clock
// may be ahead of ours.
func (r *Reconciler) deletedFor(sc *scope) time.Duration {
	return max(r.Clock.Since(sc.obj.DeletionTimestamp.Time), 0)
}
