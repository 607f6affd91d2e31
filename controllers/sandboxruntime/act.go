package sandboxruntime

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	stopTimeout = 30 * time.Second
	stopRetry   = time.Second
	// safetyNet is how often a waiting object is looked at without being woken.
	safetyNet = 60 * time.Second
	// drainPoll is how often a draining instance is looked at.
	drainPoll = 200 * time.Millisecond
	// replantPoll is how often a roll looks whether the functions have moved.
	replantPoll = 500 * time.Millisecond
	// replantPatience is how long a new sandbox may lack a source that is being
	// served before old ones go all the same: a source that does not load any more
	// must not hold up a roll for ever.
	replantPatience = 10 * time.Minute
)

// act boots what is missing and retires what is too much.
func (r *Reconciler) act(_ context.Context, sc *scope) (bool, error) {
	p := decide(r.candidates(sc), sc.wanted, sc.known.cramped == sc.trigger())
	for _, i := range sc.known.list() {
		switch {
		case slices.Contains(p.retire, i.Name):
			r.retire(sc, i, false)
		case i.State == sandboxv1alpha1.InstanceStopping:
			r.stop(sc, i)
		default:
			r.Table.Resume(sc.runtime, i.Name)
		}
	}
	if p.replanting {
		sc.requeueIn(replantPoll)
	}
	if p.short && (r.holdBack(sc) || r.coolDown(sc)) {
		return true, nil
	}
	for _, name := range p.boot {
		r.plan(sc, name, name == p.surge)
	}
	return false, nil
}

// candidates are the instances as the plan sees them.
func (r *Reconciler) candidates(sc *scope) []candidate {
	loads := r.Table.Loads(sc.runtime)
	list := make([]candidate, 0, len(sc.known.instances))
	for _, i := range sc.known.instances {
		load := loads[i.Name]
		complete := load.Complete || r.Clock.Since(i.since) >= replantPatience
		list = append(list, candidate{
			InstanceStatus: i.InstanceStatus, current: i.TemplateDigest == sc.templateDigest,
			serving:  i.State == sandboxv1alpha1.InstanceReady && complete,
			draining: load.Draining, inUse: load.InUse,
		})
	}
	return list
}

// plan enters a new attempt into the status; the boot itself starts once that is
// written.
func (r *Reconciler) plan(sc *scope, name string, surge bool) {
	i := &instance{
		InstanceStatus: sandboxv1alpha1.InstanceStatus{
			Name: name, State: sandboxv1alpha1.InstanceBooting,
			TemplateDigest: sc.templateDigest, CreatedAt: metav1.NewTime(r.Clock.Now()),
		},
		nonce:   sandbox.NewNonce(),
		trigger: sc.trigger(),
		surge:   surge,
	}
	i.Digest = nonceDigest(i.nonce)
	if sc.known.shortSince.IsZero() {
		sc.known.shortSince = r.Clock.Now()
	}
	sc.known.instances = append(sc.known.instances, i)
	sc.started = append(sc.started, name)
	request := sc.create
	request.Env = r.guestEnv(sc, i)
	request.Marker = sandbox.Marker{
		Operator: r.OperatorID, Object: string(sc.obj.UID), Ordinal: ordinal(name), Nonce: i.nonce,
	}
	sc.afterWrite = append(sc.afterWrite, func() { r.boot(sc, i, request) })
}

// abandon forgets attempts whose announcement could not be written.
func (r *Reconciler) abandon(sc *scope) {
	for _, name := range sc.started {
		sc.known.remove(name)
	}
}

// errRetired is the cause with which the boot of an unwanted sandbox ends.
var errRetired = errors.New("the sandbox is no longer wanted")

// retire takes an instance out of service and stops it when its last program has
// ended, or at once. It is called again until the instance has gone.
func (r *Reconciler) retire(sc *scope, i *instance, now bool) {
	if i.State == sandboxv1alpha1.InstanceBooting {
		r.cancelBoot(sc, i)
		return
	}
	empty := r.Table.Drain(sc.runtime, i.Name)
	if !empty && !now {
		sc.requeueIn(drainPoll)
		return
	}
	i.State = sandboxv1alpha1.InstanceStopping
	r.boots.Discard(sc.operation(i), errRetired) // an update of its agent
	r.stop(sc, i)
}

// cancelBoot ends the boot of an instance. The instance goes when collect has
// seen that end: the boot may come through all the same and bring a sandbox.
func (r *Reconciler) cancelBoot(sc *scope, i *instance) {
	i.retired = true
	if _, known := r.boots.Get(sc.operation(i)); !known {
		sc.known.remove(i.Name)
		return
	}
	r.boots.Cancel(sc.operation(i), errRetired)
}

// stop destroys the sandbox of an instance that takes no calls any more. One that
// could not be stopped is tried again after stopRetry.
func (r *Reconciler) stop(sc *scope, i *instance) {
	if left := i.stopAfter.Sub(r.Clock.Now()); left > 0 {
		sc.requeueIn(left)
		return
	}
	object, id := types.NamespacedName{Namespace: sc.obj.Namespace, Name: sc.obj.Name}, i.id
	r.stops.Start(sc.operation(i), func(ctx context.Context) (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		return struct{}{}, r.Provider.Stop(ctx, id)
	}, func() { r.waker.Wake(object) })
}
