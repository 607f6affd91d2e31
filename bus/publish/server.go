package publish

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Server is the call path of published functions: decode, route, one call of the
// agent, encode.
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
	// Workers tells calls from inside handlers from others; nil takes all for
	// others.
	Workers *Workers
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
	if err := checkPayload(binding.Request, inv.Data); err != nil {
		return nil, err
	}
	checked, caller := binding.Request, s.caller(ctx, inv)
	for {
		lease, binding, err := s.Table.AcquireFor(ctx, inv.FunctionID, caller)
		if err != nil {
			return nil, err
		}
		if binding.Request != checked {
			// The function was changed while the call waited.
			if err := checkPayload(binding.Request, inv.Data); err != nil {
				lease.Release()
				return nil, err
			}
			checked = binding.Request
		}
		request := s.request(binding, inv, deadline)
		lease.RunsAs(request.WorkerName, caller)
		result, err := s.execute(ctx, lease, binding, request)
		if !s.again(ctx, lease, binding, err) {
			return result, err
		}
	}
}

func (s *Server) caller(ctx context.Context, inv bus.Invocation) Caller {
	if s.Workers == nil {
		return nil
	}
	return s.Workers.CallerOf(ctx, inv.CallerWorkerID)
}

func checkPayload(schema *Schema, payload json.RawMessage) error {
	if schema == nil {
		return nil
	}
	if problems := schema.PayloadProblems(payload); len(problems) > 0 {
		return &CallError{Code: CodeInvalidRequest, Message: "payload: " + strings.Join(problems, "; ")}
	}
	return nil
}

func checkResult(schema *Schema, result json.RawMessage) error {
	if schema == nil {
		return nil
	}
	if problems := schema.Problems(result); len(problems) > 0 {
		return &CallError{Code: CodeHandlerError, Message: "result: " + strings.Join(problems, "; ")}
	}
	return nil
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

func (s *Server) execute(ctx context.Context, lease *Lease, b Binding, request wire.CallRequest) (json.RawMessage, error) {
	reply, err := s.Guest.Call(ctx, lease.ID, request)
	s.Metrics.started(reply.Start)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			s.cancel(ctx, lease, request.Token)
		}
		return nil, err
	}
	if reply.Logs != "" {
		s.Logger.Debug("Handler printed", "function", b.FunctionID, "bytes", len(reply.Logs))
	}
	if reply.Error != nil {
		return nil, reply.Error
	}
	return reply.Result, checkResult(b.Response, reply.Result)
}

func (s *Server) request(b Binding, inv bus.Invocation, deadline time.Time) wire.CallRequest {
	return wire.CallRequest{
		Language:     b.Language,
		SourceDigest: b.SourceDigest,
		Handler:      b.Handler,
		Isolation:    b.Isolation,
		Payload:      inv.Data,
		Context: wire.CallContext{
			FunctionID:  inv.FunctionID,
			Metadata:    inv.Metadata,
			Traceparent: inv.Traceparent,
			DeadlineMs:  deadline.UnixMilli(),
		},
		TimeoutMs: max(time.Until(deadline).Milliseconds(), 1),
		Token:     runner.NewToken(),
		Bus:       wire.Bus{WorkerName: guestWorkerName(s.WorkerName, inv.FunctionID)},
	}
}

// cancelTimeout bounds the end of a handler whose caller has gone.
const cancelTimeout = 5 * time.Second

// cancel ends a handler whose caller's connection is gone, so that nobody waits
// for its answer. Its slot stays taken meanwhile, since the back end counts the
// program until it has ended. A failure changes nothing: the agent ends the
// handler at its deadline, as it does when only that has passed.
func (s *Server) cancel(ctx context.Context, lease *Lease, token string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	if err := s.Guest.Cancel(ctx, lease.ID, token); err != nil {
		s.Logger.Debug("Ending a handler whose caller has gone", "error", err)
	}
}

// guestWorkerName names the worker that a guest becomes if it uses the bus. The
// engine refuses a second worker of the same name, so every call gets its own.
func guestWorkerName(worker, functionID string) string {
	var number [4]byte
	binary.BigEndian.PutUint32(number[:], rand.Uint32())
	return worker + ":" + functionID + ":" + hex.EncodeToString(number[:])
}
