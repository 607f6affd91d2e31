package sandboxruntime

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/capacity"
)

var _ capacity.Displacer = (*Reconciler)(nil)

// displaceAfter is how long a sandbox must have been unused to go for another. It
// keeps two runtimes that are called in turn from displacing each other each time.
const displaceAfter = 5 * time.Second

// Displace implements capacity.Displacer. Only runtimes with the idle action Stop
// give up sandboxes: their functions stay on the bus, and the next call boots
// again.
func (r *Reconciler) Displace() bool {
	owner, chosen, ok := r.Table.DrainIdlest(r.memory.displaceable(), r.displaceAfter())
	if !ok {
		return false
	}
	r.memory.displace(types.UID(owner.UID), chosen.ID)
	r.WakeRuntime(owner)
	return true
}

func (r *Reconciler) displaceAfter() time.Duration {
	if r.DisplaceAfter > 0 {
		return r.DisplaceAfter
	}
	return displaceAfter
}

// giveUp stops the sandboxes that were chosen to make room, unless a call came in
// the meantime.
func (r *Reconciler) giveUp(_ context.Context, sc *scope) (bool, error) {
	chosen := r.memory.takeDisplaced(sc.obj.UID)
	for _, i := range sc.known.list() {
		if !chosen[i.id] || i.State != sandboxv1alpha1.InstanceReady {
			continue
		}
		if r.Table.Activity(sc.runtime).Wanted || !r.Table.Drain(sc.runtime, i.Name) {
			r.Table.Resume(sc.runtime, i.Name)
			continue
		}
		sc.known.givenUp++
		r.retire(sc, i, false)
	}
	return false, nil
}

// offerForDisplacement says whether sandboxes of a runtime may go for others.
func (r *Reconciler) offerForDisplacement(sc *scope) {
	spec := &sc.obj.Spec
	may := idleAction(spec) == sandboxv1alpha1.IdleStop && sc.obj.DeletionTimestamp.IsZero()
	r.memory.setDisplaceable(sc.obj.UID, sc.runtime, may)
}

func (m *memory) setDisplaceable(uid types.UID, runtime publish.Runtime, may bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if may {
		m.offers[uid] = runtime
	} else {
		delete(m.offers, uid)
	}
}

func (m *memory) displaceable() []publish.Runtime {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.offers))
}

func (m *memory) displace(uid types.UID, id sandbox.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.displaced.add(uid, id)
}

// takeDisplaced returns the sandboxes of a runtime that shall go, and forgets
// them.
func (m *memory) takeDisplaced(uid types.UID) map[sandbox.ID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.displaced.take(uid)
}
