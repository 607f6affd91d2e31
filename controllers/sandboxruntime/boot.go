package sandboxruntime

import (
	"context"
	"time"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/capacity"
)

const (
	// bootTimeout covers the creation, whose own limit is 300 s
	// (contracts/code-runner.md §8), and the agent.
	bootTimeout = 360 * time.Second
	// placeTimeout is how long one attempt waits for a place in the daemon. The next
	// one has the same place in the queue.
	placeTimeout = 5 * time.Minute
)

func (r *Reconciler) boot(sc *scope, i *instance, request sandbox.CreateRequest) {
	runtime, ticket, fitting := sc.runtime, r.ticket(sc, i), sc.fitting
	r.boots.Start(sc.operation(i), func(ctx context.Context) (runner.Booted, error) {
		return r.bootFitted(ctx, ticket, request, fitting)
	}, func() { r.WakeRuntime(runtime) })
}

// bootFitted makes a sandbox and what the spec wants in it. It is one unit: a
// sandbox in which something is missing is stopped again.
func (r *Reconciler) bootFitted(
	ctx context.Context, ticket capacity.Ticket, request sandbox.CreateRequest, fitting prepare.Plan,
) (runner.Booted, error) {
	var waited time.Duration
	ticket.OnPlace = func(d time.Duration) { waited = d }
	bounded, cancel := context.WithTimeout(capacity.WithTicket(ctx, ticket), ticket.Wait+bootTimeout)
	defer cancel()
	booted, err := r.Runner.Boot(bounded, request)
	booted.Create -= waited
	if err != nil || fitting.IsEmpty() {
		return booted, err
	}
	begin := r.Clock.Now()
	if err = prepare.Prepare(ctx, r.Runner, r.Provider, booted.ID, fitting); err != nil {
		r.rollback(ctx, booted.ID)
		return runner.Booted{}, err
	}
	booted.Prepare += r.Clock.Since(begin)
	return booted, nil
}

// rollback stops a sandbox, also after a cancellation. One that cannot be stopped
// now is found by its marker in the sweep.
func (r *Reconciler) rollback(ctx context.Context, id sandbox.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	_ = r.Provider.Stop(ctx, id)
}

// ticket says how a boot stands in the queue for a place in the daemon.
func (r *Reconciler) ticket(sc *scope, i *instance) capacity.Ticket {
	runtime := sc.runtime
	ticket := capacity.Ticket{
		Since: sc.known.shortSince,
		Class: func() capacity.Class {
			if r.Table.Activity(runtime).Wanted {
				return capacity.Wake
			}
			return capacity.Boot
		},
		OnWait: func() { i.waits.Store(true); r.WakeRuntime(runtime) },
	}
	switch {
	case i.surge:
		// Where there is no room for one more, an old one of ours goes first.
		ticket.OnWait = nil
	case r.deletesWhenIdle(sc.obj):
		// Its caller waits for the first run and is told at once.
		ticket.Displace = true
	default:
		ticket.Displace, ticket.Wait = true, placeTimeout
	}
	return ticket
}
