package sandboxruntime

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	// bootTimeout covers the creation, whose own limit is 300 s
	// (contracts/code-runner.md §8), and the preparation of the guest.
	bootTimeout = 360 * time.Second
	stopTimeout = 30 * time.Second
	stopRetry   = time.Second
	// safetyNet is how often a waiting object is looked at without being woken.
	safetyNet = 60 * time.Second
)

// act boots what is missing and retires what is too much.
func (r *Reconciler) act(_ context.Context, sc *scope) (bool, error) {
	p := decide(sc.known.statuses(), sc.wanted, sc.templateDigest)
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
	if p.short && r.holdBack(sc) {
		return true, nil
	}
	for _, name := range p.boot {
		r.plan(sc, name)
	}
	return false, nil
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
	message = redact.Text(message, redact.SecretValues(sc.obj.Spec.Env, sc.create.Env))
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

// retryDelay doubles from half a second to a minute.
func retryDelay(failures int) time.Duration {
	delay := 500 * time.Millisecond
	for ; failures > 1 && delay < time.Minute; failures-- {
		delay *= 2
	}
	return min(delay, time.Minute)
}

// plan enters a new attempt into the status; the boot itself starts once that is
// written.
func (r *Reconciler) plan(sc *scope, name string) {
	i := &instance{
		InstanceStatus: sandboxv1alpha1.InstanceStatus{
			Name: name, State: sandboxv1alpha1.InstanceBooting,
			TemplateDigest: sc.templateDigest, CreatedAt: metav1.NewTime(r.Clock.Now()),
		},
		nonce:   sandbox.NewNonce(),
		trigger: sc.trigger(),
	}
	i.Digest = nonceDigest(i.nonce)
	sc.known.instances = append(sc.known.instances, i)
	sc.started = append(sc.started, name)
	request := sc.create
	request.Marker = sandbox.Marker{
		Operator: r.OperatorID, Object: string(sc.obj.UID), Ordinal: ordinal(name), Nonce: i.nonce,
	}
	sc.afterWrite = append(sc.afterWrite, func() { r.boot(sc, i, request) })
}

func (r *Reconciler) boot(sc *scope, i *instance, request sandbox.CreateRequest) {
	key := types.NamespacedName{Namespace: sc.obj.Namespace, Name: sc.obj.Name}
	r.boots.Start(sc.operation(i), func(ctx context.Context) (runner.Booted, error) {
		ctx, cancel := context.WithTimeout(ctx, bootTimeout)
		defer cancel()
		return r.Runner.Boot(ctx, request)
	}, func() { r.waker.Wake(key) })
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

// drainPoll is how often a draining instance is looked at.
const drainPoll = 200 * time.Millisecond

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
