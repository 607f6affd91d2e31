package sandboxruntime

import (
	"context"
	"errors"
	"maps"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// errNotIsolated fails the calls that wait for a runtime that may not boot.
var errNotIsolated = errors.New("the runtime has no sandbox: its bus access is refused, since guests are not kept apart there")

// tellIsolation writes what is known of the guests' listener, and warns once of
// one that does not keep guests apart.
func (r *Reconciler) tellIsolation(sc *scope) {
	if !sc.obj.Spec.HasBusAccess() {
		sc.obj.Status.BusIsolated = nil
		return
	}
	found := r.GuestBus.Isolation()
	if !found.Known {
		return // What a former process found stands until this one has looked.
	}
	told := sc.obj.Status.BusIsolated
	sc.obj.Status.BusIsolated = found.Status()
	if !found.Isolated && (told == nil || *told) {
		r.warn(sc.obj, sandboxv1alpha1.BusNotIsolatedReason, "Probe", found.Reason)
	}
}

// holdFromBus says that no sandbox may boot with bus access now, under
// --require-bus-isolation.
func (r *Reconciler) holdFromBus(sc *scope) bool {
	if !sc.obj.Spec.HasBusAccess() {
		return false
	}
	switch verdict, found := r.GuestBus.Admit(); verdict {
	case guestaccess.Wait:
		sc.conclude(conditions.Waiting, sandboxv1alpha1.BusUnavailableReason,
			"the operator has not seen yet whether the guests' bus listener keeps guests apart; the runtime goes on when it has")
		sc.requeueIn(safetyNet)
		return true
	case guestaccess.Refuse:
		r.Table.Refuse(sc.runtime, errNotIsolated)
		sc.conclude(conditions.Stalled, sandboxv1alpha1.BusNotIsolatedReason, "bus access is refused by --require-bus-isolation: "+found.Reason)
		return true
	default:
		return false
	}
}

// busTemplate is the part of the template that is about the bus; empty without
// bus access.
func (r *Reconciler) busTemplate(spec *sandboxv1alpha1.SandboxRuntimeSpec) string {
	if !spec.HasBusAccess() {
		return ""
	}
	return r.GuestBus.Template(spec.BusAllow)
}

// guestEnv is the environment of one instance. Its credential names the digest
// that the status shows before the sandbox is made.
func (r *Reconciler) guestEnv(sc *scope, i *instance) map[string]string {
	if !sc.obj.Spec.HasBusAccess() {
		return sc.create.Env
	}
	env := maps.Clone(sc.create.Env)
	env["III_URL"] = r.GuestBus.URL(guestaccess.Guest{
		Kind: guestaccess.KindRuntime, Namespace: sc.obj.Namespace, Name: sc.obj.Name, UID: sc.obj.UID,
		Instance: i.Digest, Language: sc.obj.Spec.Language,
	})
	return env
}

// HandleBusIsolation looks at all runtimes again: the listener of the guests was
// found to be another than before.
func (r *Reconciler) HandleBusIsolation(ctx context.Context) { r.wakeAll(ctx) }
