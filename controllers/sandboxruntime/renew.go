package sandboxruntime

import (
	"context"
	"time"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// renewEvery is how often the daemon's idle clock is set back; it is shorter
// than the shortest lease, which is leaseMargin.
const renewEvery = leaseMargin / 3

// touchTimeout bounds one renewal.
const touchTimeout = 10 * time.Second

// renew keeps the daemon from taking sandboxes that the operator wants. A lost
// renewal is no harm: the next one comes long before the lease ends. It comes
// before the steps that may end a reconciliation early: sandboxes that take
// calls go on while a reference is missing or a further one does not boot.
func (r *Reconciler) renew(_ context.Context, sc *scope) (bool, error) {
	for _, i := range sc.known.instances {
		if i.State != sandboxv1alpha1.InstanceReady {
			continue
		}
		if left := renewEvery - r.Clock.Since(i.touched); left > 0 {
			sc.requeueIn(left)
			continue
		}
		i.touched = r.Clock.Now()
		sc.requeueIn(renewEvery)
		r.touch(sc.operation(i)+"/touch", i)
	}
	return false, nil
}

func (r *Reconciler) touch(key string, i *instance) {
	id := i.id
	r.stops.Start(key, func(ctx context.Context) (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, touchTimeout)
		defer cancel()
		return struct{}{}, r.Provider.Touch(ctx, id)
	}, func() { r.stops.Take(key) })
}
