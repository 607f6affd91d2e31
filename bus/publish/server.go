package publish

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Server is the call path of published functions: decode, route, one exec of
// the agent, encode.
type Server struct {
	// Table routes calls.
	Table *Table
	// Guest runs the agent in sandboxes.
	Guest *runner.Runner
	// WorkerName prefixes the codes of errors and the names of guest workers.
	WorkerName string
	Logger     *slog.Logger
	// Metrics counts the calls; nil counts nothing.
	Metrics *Metrics
}

// Serve answers one call of a published function; it is a bus.Handler. The
// result is the handler's own JSON, byte for byte.
func (s *Server) Serve(ctx context.Context, inv bus.Invocation) (json.RawMessage, error) {
	end := s.Metrics.begin()
	result, err := s.call(ctx, inv)
	end(err)
	if err == nil {
		return result, nil
	}
	return nil, asCallError(err).remote(s.WorkerName)
}

func (s *Server) call(ctx context.Context, inv bus.Invocation) (json.RawMessage, error) {
	binding, ok := s.Table.Binding(inv.FunctionID)
	if !ok {
		return nil, ErrRuntimeGone
	}
	deadline := time.Now().Add(binding.Timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for {
		lease, binding, err := s.Table.AcquireFor(ctx, inv.FunctionID)
		if err != nil {
			return nil, err
		}
		result, err := s.execute(ctx, lease, binding, inv, deadline)
		if !s.again(ctx, lease, binding, err) {
			return result, err
		}
	}
}

// again says whether a call that was refused before it began may be tried on
// another slot, and takes the refusing instance out of the way.
func (s *Server) again(ctx context.Context, lease *Lease, binding Binding, err error) bool {
	defer lease.Release()
	var failure *wire.Failure
	switch {
	case err == nil || ctx.Err() != nil:
		return false
	case sandbox.IsNotFound(err):
		lease.Lost()
		return true
	case sandbox.IsDead(err):
		// The handler may have run, so the call is not repeated.
		lease.Lost()
		return false
	case sandbox.IsBusy(err):
		return s.Table.pause(ctx)
	case errors.As(err, &failure) && failure.Kind == wire.NotPlanted:
		lease.NotPlanted(binding.SourceDigest)
		return true
	default:
		return false
	}
}

// busyPause is how long a call waits when the back end has a slot less than it
// said, as after a caller that gave up while its program goes on.
const busyPause = 20 * time.Millisecond

func (t *Table) pause(ctx context.Context) bool {
	select {
	case <-t.clock.After(busyPause):
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) execute(ctx context.Context, lease *Lease, b Binding, inv bus.Invocation, deadline time.Time) (json.RawMessage, error) {
	left := time.Until(deadline)
	reply, err := s.Guest.Call(ctx, lease.ID, wire.CallRequest{
		Language:     b.Language,
		SourceDigest: b.SourceDigest,
		Handler:      b.Handler,
		Payload:      inv.Data,
		Context: wire.CallContext{
			FunctionID:  inv.FunctionID,
			Metadata:    inv.Metadata,
			Traceparent: inv.Traceparent,
			DeadlineMs:  deadline.UnixMilli(),
		},
		TimeoutMs: max(left.Milliseconds(), 1),
		Bus:       wire.Bus{WorkerName: guestWorkerName(s.WorkerName, inv.FunctionID)},
	})
	if err != nil {
		return nil, err
	}
	if reply.Logs != "" {
		s.Logger.Debug("Handler printed", "function", inv.FunctionID, "bytes", len(reply.Logs))
	}
	if reply.Error != nil {
		return nil, reply.Error
	}
	return reply.Result, nil
}

// guestWorkerName names the worker that a guest becomes if it uses the bus. The
// engine refuses a second worker of the same name, so every call gets its own.
func guestWorkerName(worker, functionID string) string {
	return worker + ":" + functionID + ":" + uuid.NewString()[:8]
}
