package bus

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Invocation is one call of a function of ours.
type Invocation struct {
	// ID is the caller's invocation id, or one the engine made for a void call.
	ID         string
	FunctionID string
	// Data is the payload, JSON null when there is none. The engine adds the key
	// _caller_worker_id to objects (contracts/iii-bus.md §5.2).
	Data json.RawMessage
	// Metadata is the caller's side data, nil when absent.
	Metadata json.RawMessage
	// Traceparent and Baggage are W3C trace context, empty when absent. The
	// handler's context has them as its remote span and its baggage.
	Traceparent, Baggage string

	// decoded: Data came in a frame, so that it need not be looked through again to
	// know that it is JSON.
	decoded bool
}

const callerKey = "_caller_worker_id"

// CallerWorkerID is the worker that called, as the engine vouches for it; empty
// for deliveries of triggers and queues (§5.2). Payloads that are no objects, or
// carry another type there, name no caller.
func (i Invocation) CallerWorkerID() string {
	if !i.decoded && !json.Valid(i.Data) {
		return ""
	}
	return protocol.TextField(i.Data, callerKey)
}

// Handler answers one call; a nil result means no value. Its context ends when
// the connection the call came on is lost, for then no answer can reach the
// caller. A *RemoteError keeps its code, any other error and a panic become
// invocation_failed (§5.6). Handlers run concurrently.
type Handler func(ctx context.Context, inv Invocation) (json.RawMessage, error)

// Function is a function of this worker.
type Function struct {
	// ID has "::" between its segments by convention.
	ID          string
	Description string
	// RequestFormat and ResponseFormat are JSON Schemas, nil when unknown.
	RequestFormat, ResponseFormat json.RawMessage
	// Metadata is any JSON; {"internal": true} hides the function from lists.
	Metadata json.RawMessage
	Handler  Handler
}

// RegisterFunction adds a function, or replaces the one of the same id: at once
// when connected, and again on every new connection. The engine acknowledges
// nothing (§2.2); a refusal comes as an event of kind FunctionRejected.
func (c *Client) RegisterFunction(f Function) error {
	if f.ID == "" {
		return errors.New("registering a function: ID is empty")
	}
	if f.Handler == nil {
		return errors.New("registering function " + f.ID + ": Handler is nil")
	}
	frame, err := encode(&protocol.RegisterFunction{
		ID:             f.ID,
		Description:    f.Description,
		RequestFormat:  f.RequestFormat,
		ResponseFormat: f.ResponseFormat,
		Metadata:       f.Metadata,
	})
	if err != nil {
		return actError("registering function", f.ID, err)
	}
	put(c.registry, c.registry.functions, f.ID, f.Handler, frame)
	return nil
}

// UnregisterFunction takes a function back; an unknown id is no error. Calls
// already under way end normally.
func (c *Client) UnregisterFunction(id string) {
	remove(c.registry, c.registry.functions, id, func(Handler) protocol.Message {
		return &protocol.UnregisterFunction{ID: id}
	})
}
