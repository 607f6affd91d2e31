package sandboxruntime

import (
	"context"
	"time"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
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
	switch {
	case i.retired:
	case i.surge && sandbox.IsCapacity(done.Err):
		sc.known.cramped = i.trigger
	default:
		r.Metrics.bootFailed(done.Err)
		sc.known.fail(i.trigger, done.Err, r.Clock.Now())
	}
}

// admit lets a booted sandbox take calls. Its idle time begins now: one that took
// long to come must not go at once.
func (r *Reconciler) admit(sc *scope, i *instance, booted runner.Booted) {
	r.Metrics.booted(booted)
	sc.known.failure, sc.known.cramped, sc.known.shortSince = nil, "", time.Time{}
	sc.known.verified = true
	i.retired = false
	r.Table.Use(sc.runtime)
	i.id, i.since, i.touched = booted.ID, r.Clock.Now(), r.Clock.Now()
	i.State = sandboxv1alpha1.InstanceReady
	r.postpone(sc)
	r.Table.SetInstance(sc.runtime, publish.Instance{Name: i.Name, ID: booted.ID, Slots: defaultSlots, Template: i.TemplateDigest})
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
