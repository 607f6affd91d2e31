package sandboxrun

import (
	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// holdFromBus says that no sandbox may boot with bus access now, under
// --require-bus-isolation. What is not known yet is waited for.
func (r *Reconciler) holdFromBus(sc *scope, guest *sandboxv1alpha1.GuestSpec) (bool, error) {
	if !guest.HasBusAccess() {
		return false, nil
	}
	verdict, found := r.GuestBus.Admit()
	var err error
	switch verdict {
	case guestaccess.Wait:
		sc.requeue = referenceRetry
		_, err = sc.conclude(conditions.Waiting, sandboxv1alpha1.BusUnavailableReason,
			"the operator has not seen yet whether the guests' bus listener keeps guests apart; the run starts when it has")
	case guestaccess.Refuse:
		_, err = r.finish(sc, result{failure: &failure{
			reason: sandboxv1alpha1.BusNotIsolatedReason, message: "bus access is refused by --require-bus-isolation: " + found.Reason,
		}})
	default:
		return false, nil
	}
	return true, err
}

// guestURL is the bus for the sandbox of this attempt. Its credential names the
// digest that the status shows before the sandbox is made.
func (r *Reconciler) guestURL(sc *scope) string {
	return r.GuestBus.URL(guestaccess.Guest{
		Kind: guestaccess.KindRun, Namespace: sc.obj.Namespace, Name: sc.obj.Name, UID: sc.obj.UID,
		Instance: sc.attempt.digest, Language: sc.obj.Spec.Language,
	})
}
