package guestaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// probePatience bounds each step of a probe: connecting, a call, a question of
// the engine. The engine's own limits are 10 s, but a listener on the way to being
// ready is looked at again.
const probePatience = 5 * time.Second

// Findings that speak against a listener.
const (
	reasonSameListener = "guests are given the operator's own listener, where everybody may call everything; " +
		"set --guest-bus-url to a listener with RBAC"
	reasonUnreachable  = "the operator cannot reach the guests' listener, and so cannot tell whether it keeps guests apart"
	reasonOpen         = "the guests' listener lets in whoever connects"
	reasonRefusesAll   = "the guests' listener does not take the operator's credentials; its auth function should be the operator's"
	reasonNotAsked     = "the guests' listener does not ask the operator about registrations of functions"
	reasonTriggersFree = "the guests' listener does not ask the operator about triggers"
	reasonMayCall      = "a guest may call %s"
)

// probedCalls do nothing but tell, should they get through.
var probedCalls = []string{
	"sandbox::list", "sandbox::catalog::list", protocol.FunctionWorkersList, protocol.FunctionRegisteredList,
}

// probeTrigger is a type that nobody provides.
const probeTrigger = "sandbox-operator-probe"

// probe looks at the guests' listener as a guest does. It is true only by what it
// saw (design rule 12).
func (p *Prober) probe(ctx context.Context) Isolation {
	reason := p.findFault(ctx)
	return Isolation{Known: true, Isolated: reason == "", Reason: reason}
}

func (p *Prober) findFault(ctx context.Context) string {
	if sameListener(p.Access.address, p.BusURL) {
		return reasonSameListener
	}
	guest := Guest{Kind: kindProbe, Name: p.Service.WorkerName, Instance: uuid.NewString()}
	if reason := p.tryStranger(ctx, guest); reason != "" {
		return reason
	}
	return p.tryGuest(ctx, guest)
}

// tryStranger connects without a credential, which must be refused by the
// engine's own word.
func (p *Prober) tryStranger(ctx context.Context, g Guest) string {
	stranger, end, err := p.connect(ctx, p.Access.address.String(), g)
	if err != nil {
		return reasonUnreachable
	}
	defer end()
	switch err := stranger.await(ctx); {
	case err == nil:
		return reasonOpen
	case bus.RemoteCode(err) != "":
		return ""
	default:
		return reasonUnreachable
	}
}

// tryGuest connects as a guest that may call everything, and does what none may.
func (p *Prober) tryGuest(ctx context.Context, g Guest) string {
	inspection, done := p.Service.inspect(g)
	defer done()
	guest, end, err := p.connect(ctx, p.Access.URL(g), g)
	if err != nil {
		return reasonUnreachable
	}
	defer end()
	if err := guest.await(ctx); err != nil {
		return reasonRefusesAll
	}
	for _, id := range append(p.Service.own(), probedCalls...) {
		forbidden, err := guest.isForbidden(ctx, id)
		if err != nil {
			return reasonUnreachable
		}
		if !forbidden {
			return fmt.Sprintf(reasonMayCall, id)
		}
	}
	return p.tryRegistrations(ctx, guest, inspection)
}

// tryRegistrations registers what the operator refuses, and waits for the
// engine's questions.
func (p *Prober) tryRegistrations(ctx context.Context, guest *visitor, inspection *inspection) string {
	id := p.Service.WorkerName + "::probe-" + inspection.guest.Instance
	nobody := func(context.Context, bus.Invocation) (json.RawMessage, error) { return nil, errors.New("a probe") }
	if guest.client.RegisterFunction(bus.Function{ID: id, Metadata: internal, Handler: nobody}) != nil ||
		!wait(ctx, inspection.asked[functionAsked]) {
		return reasonNotAsked
	}
	if guest.client.RegisterTrigger(bus.Trigger{ID: uuid.NewString(), Type: probeTrigger, FunctionID: id}) != nil ||
		!wait(ctx, inspection.asked[triggerAsked]) {
		return reasonTriggersFree
	}
	return ""
}

func wait(ctx context.Context, asked <-chan struct{}) bool {
	limit := time.NewTimer(probePatience)
	defer limit.Stop()
	select {
	case <-asked:
		return true
	case <-limit.C:
	case <-ctx.Done():
	}
	return false
}
