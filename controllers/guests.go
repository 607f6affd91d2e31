package controllers

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
)

// newGuestAccess makes what guests get to the bus by, and what decides on them
// there.
func (op *Operator) newGuestAccess(mgr ctrl.Manager, o Options, key []byte) error {
	authority, err := guestaccess.NewAuthority(key)
	if err != nil {
		return err
	}
	if op.guestBus, err = guestaccess.NewAccess(o.GuestBusURL, authority, o.RequireBusIsolation); err != nil {
		return err
	}
	op.guests, err = guestaccess.NewService(guestaccess.Options{
		Bus: op.bus, Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Authority: authority,
		WorkerName: o.WorkerName, FunctionPrefixIndex: index.FunctionByPrefix, Logger: logger("guests"),
	})
	if err != nil {
		return err
	}
	op.prober = guestaccess.NewProber(guestaccess.Prober{
		Access: op.guestBus, Service: op.guests, BusURL: o.BusURL, Logger: logger("guests"),
		Changed: func(ctx context.Context) { op.runtimes.HandleBusIsolation(ctx) },
	})
	return nil
}
