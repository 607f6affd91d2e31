package runner

import (
	"context"
	"errors"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/runner/link"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Call calls a planted handler, over the sandbox's link or by an execution of the
// agent. What the handler did, good or bad, is in the reply; an error means that
// the call may not have reached it, but for a *ResultLostError, after which it has.
func (r *Runner) Call(ctx context.Context, id sandbox.ID, req wire.CallRequest) (wire.Reply, error) {
	req.Warm = r.Warm
	reply, err := r.deliver(ctx, id, req)
	if err != nil {
		return wire.Reply{}, err
	}
	return r.withResult(ctx, id, reply)
}

func (r *Runner) deliver(ctx context.Context, id sandbox.ID, req wire.CallRequest) (wire.Reply, error) {
	if r.Links == nil {
		r.Metrics.executed()
		return r.execute(ctx, id, r.program.Call(req))
	}
	reply, err := r.Links.Call(ctx, id, req)
	if !errors.Is(err, link.ErrNotRun) {
		r.Metrics.linked()
		return reply, err
	}
	begun := time.Now()
	r.Metrics.executed()
	reply, err = r.execute(ctx, id, r.program.Call(req))
	switch {
	case sandbox.IsNotFound(err), sandbox.IsDead(err):
		r.Links.Forget(id)
	case err == nil && link.Takes(req):
		r.Links.Executed(id, time.Since(begun), reply)
	}
	return reply, err
}

// Cancel ends the run, call, installation or setup that was started with a
// token: the program and all that stems from it. One that has ended, or that the
// sandbox never saw, is no error, and one that has yet to start will not. What
// was canceled answers its own caller, with Run.Canceled or wire.Canceled.
func (r *Runner) Cancel(ctx context.Context, id sandbox.ID, token string) error {
	if r.Links != nil {
		if known, err := r.Links.Cancel(ctx, id, token); known {
			return err
		}
	}
	reply, err := r.exchange(ctx, id, r.program.Cancel(wire.CancelRequest{Token: token}))
	if err == nil && reply.Error != nil {
		return reply.Error
	}
	return err
}
