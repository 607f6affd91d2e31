package sandboxruntime

import (
	"time"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

const (
	// crashWindow is how soon after it became ready the loss of a sandbox counts as
	// its own doing.
	crashWindow = 60 * time.Second
	// health is how long all sandboxes must live for their predecessors' crashes to
	// be forgotten.
	health = 10 * time.Minute
	// crashLoop is how many crashes in a row are no accident any more.
	crashLoop = 2
)

const messageCrashLoop = "sandboxes are lost within a minute of being ready, again and again; " +
	"each replacement waits longer, up to 5 minutes"

// crashes counts the sandboxes that were lost soon after they were ready.
type crashes struct {
	// trigger is what they were booted for; see scope.trigger.
	trigger string
	// count is how many were lost in a row.
	count int
	// bootAt is before when no other is made.
	bootAt time.Time
}

// next is the state after one more loss. The first is replaced at once: a sandbox
// may be lost for any reason once.
func (c crashes) next(trigger string, now time.Time) crashes {
	if c.trigger != trigger {
		c = crashes{trigger: trigger}
	}
	c.count++
	if c.count >= crashLoop {
		c.bootAt = now.Add(crashDelay(c.count - 1))
	}
	return c
}

// countCrash notes the loss of an instance that took calls. Sandboxes that went
// together count once, and those that a daemon took with it do not count.
func (r *Reconciler) countCrash(sc *scope, i *instance) {
	young := i.trigger != "" && r.Clock.Since(i.since) <= crashWindow
	if !young || sc.crashed || sc.known.daemonWasAway {
		return
	}
	sc.crashed = true
	sc.known.crashes = sc.known.crashes.next(i.trigger, r.Clock.Now())
	if sc.known.crashes.count == crashLoop {
		r.warn(sc.obj, sandboxv1alpha1.SandboxRuntimeCrashLoopReason, "Replace", messageCrashLoop)
	}
}

// forgiveCrashes forgets crashes once everything has been well for long.
func (r *Reconciler) forgiveCrashes(sc *scope) {
	for _, i := range sc.known.instances {
		if i.State != sandboxv1alpha1.InstanceReady || r.Clock.Since(i.since) < health {
			return
		}
	}
	if len(sc.known.instances) > 0 {
		sc.known.crashes = crashes{}
	}
}

// coolDown says that sandboxes crash again and again, and reports whether the next
// one has to wait.
func (r *Reconciler) coolDown(sc *scope) bool {
	c := sc.known.crashes
	if c.count < crashLoop || c.trigger != sc.trigger() {
		return false
	}
	sc.conclude(conditions.Waiting, sandboxv1alpha1.SandboxRuntimeCrashLoopReason, messageCrashLoop)
	left := c.bootAt.Sub(r.Clock.Now())
	if left <= 0 {
		return false
	}
	sc.requeueIn(left)
	return true
}
