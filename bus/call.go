package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Call names a function and what it gets.
type Call struct {
	FunctionID string
	// Data is the payload; empty means {}.
	Data json.RawMessage
	// Metadata is side data for the executor, absent when empty.
	Metadata json.RawMessage
	// Namespace is the function's bus namespace; empty means default.
	Namespace string
	// Traceparent and Baggage are W3C trace context. Where they are empty, the
	// span and the baggage of the call's context are sent, if it has any.
	Traceparent, Baggage string

	// encoded: Data is what an encoder made, and Metadata absent, so that neither
	// need be looked through again.
	encoded bool
}

// Call calls a function and waits for its result, nil when it has none. Without
// a deadline in ctx, Options.CallTimeout holds. It is never repeated.
//
// Errors: ErrNotConnected (not sent), *RemoteError (the function's or the
// engine's answer), *TimeoutError and *ConnectionLostError (outcome unknown),
// *TooLargeError (not sent), context.Canceled.
func (c *Client) Call(ctx context.Context, call Call) (json.RawMessage, error) {
	return c.roundTrip(ctx, call, nil)
}

// Void calls a function without an answer; it returns when the frame is queued
// on the connection. Nothing tells whether the function exists
// (contracts/iii-bus.md §5.3).
func (c *Client) Void(ctx context.Context, call Call) error {
	s := c.session()
	if s == nil {
		return notConnected(call)
	}
	frame, err := encode(call.traced(ctx).message("", &protocol.Action{Type: protocol.ActionVoid}))
	if err != nil {
		return fmt.Errorf("calling %s: %w", call.FunctionID, err)
	}
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	start := time.Now()
	// The frame stays worth sending after ctx ends, unlike that of a Call.
	if err := s.outbox.reserve(ctx, s.ctx.Done()); err != nil {
		return ended(call, start, err)
	}
	s.outbox.fill(s.ctx, frame)
	return nil
}

// Enqueue hands a call to a queue of the engine and returns its receipt, not
// the function's result (§5.4).
func (c *Client) Enqueue(ctx context.Context, queue string, call Call) (receiptID string, err error) {
	if queue == "" {
		return "", errors.New("enqueuing: queue is empty")
	}
	result, err := c.roundTrip(ctx, call, &protocol.Action{Type: protocol.ActionEnqueue, Queue: queue})
	if err != nil {
		return "", err
	}
	var receipt struct {
		ID string `json:"messageReceiptId"`
	}
	if err := json.Unmarshal(result, &receipt); err != nil || receipt.ID == "" {
		return "", fmt.Errorf("enqueuing %s: the engine's answer has no receipt", call.FunctionID)
	}
	return receipt.ID, nil
}

// Invoke is Call for Go values: the request is encoded, the result decoded. An
// absent result leaves Res zero.
func Invoke[Res any](ctx context.Context, c *Client, functionID string, request any) (Res, error) {
	var result Res
	data, err := json.Marshal(request)
	if err != nil {
		return result, fmt.Errorf("calling %s: encoding the request: %w", functionID, err)
	}
	answer, err := c.Call(ctx, Call{FunctionID: functionID, Data: data, encoded: true})
	if err != nil || len(answer) == 0 {
		return result, err
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		return result, fmt.Errorf("calling %s: decoding the result: %w", functionID, err)
	}
	return result, nil
}

func (c *Client) roundTrip(ctx context.Context, call Call, action *protocol.Action) (json.RawMessage, error) {
	s := c.session()
	if s == nil {
		return nil, notConnected(call)
	}
	id := uuid.NewString()
	frame, err := call.frame(ctx, id, action)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", call.FunctionID, err)
	}
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	start := time.Now()
	answer := s.pending.add(id)
	defer s.pending.forget(id)
	if err := s.outbox.send(ctx, s.ctx.Done(), frame); err != nil {
		return nil, ended(call, start, err)
	}
	return s.await(ctx, call, start, answer)
}

func (s *session) await(ctx context.Context, call Call, start time.Time, answer <-chan *protocol.InvocationResult) (json.RawMessage, error) {
	select {
	case result := <-answer:
		return outcome(call, result)
	case <-ctx.Done():
		return nil, ended(call, start, ctx.Err())
	case <-s.ctx.Done():
	}
	select {
	case result := <-answer:
		// It arrived just before the connection went.
		return outcome(call, result)
	default:
		return nil, &ConnectionLostError{FunctionID: call.FunctionID}
	}
}

func outcome(call Call, result *protocol.InvocationResult) (json.RawMessage, error) {
	if result.Error != nil {
		return nil, fmt.Errorf("calling %s: %w", call.FunctionID, remoteError(result.Error))
	}
	return result.Result, nil
}

func ended(call Call, start time.Time, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &TimeoutError{FunctionID: call.FunctionID, After: time.Since(start)}
	}
	return fmt.Errorf("calling %s: %w", call.FunctionID, err)
}

func notConnected(call Call) error {
	return fmt.Errorf("calling %s: %w", call.FunctionID, ErrNotConnected)
}

func (c *Client) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.options.CallTimeout)
}

func (call Call) frame(ctx context.Context, id string, action *protocol.Action) ([]byte, error) {
	message := call.traced(ctx).message(id, action)
	if call.encoded {
		return bounded(protocol.EncodeText(message))
	}
	return encode(message)
}

func (call Call) message(id string, action *protocol.Action) *protocol.InvokeFunction {
	return &protocol.InvokeFunction{
		InvocationID: id,
		FunctionID:   call.FunctionID,
		Data:         orEmptyObject(call.Data),
		Metadata:     call.Metadata,
		Namespace:    optional(call.Namespace),
		Traceparent:  call.Traceparent,
		Baggage:      call.Baggage,
		Action:       action,
	}
}
