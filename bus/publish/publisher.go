package publish

import (
	"context"
	"encoding/json"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// Publisher registers functions and their triggers on the bus and asks the
// engine whether it took them: the bus acknowledges no success
// (contracts/iii-bus.md §2.2).
type Publisher struct {
	client     *bus.Client
	server     *Server
	workerName string
	// handler is the one of all functions.
	handler bus.Handler
}

// NewPublisher returns a publisher whose functions are answered by the server.
func NewPublisher(client *bus.Client, server *Server, workerName string) *Publisher {
	return &Publisher{client: client, server: server, workerName: workerName, handler: server.Serve}
}

// Publication is what the bus catalog shows of a function.
type Publication struct {
	FunctionID     string
	Description    string
	RequestFormat  json.RawMessage
	ResponseFormat json.RawMessage
	Metadata       json.RawMessage
}

// Publish registers a function, or replaces its description. The table must
// have its binding already, since calls may come at once.
func (p *Publisher) Publish(pub Publication) error {
	return p.client.RegisterFunction(bus.Function{
		ID:             pub.FunctionID,
		Description:    pub.Description,
		RequestFormat:  pub.RequestFormat,
		ResponseFormat: pub.ResponseFormat,
		Metadata:       pub.Metadata,
		Handler:        p.handler,
	})
}

// Unpublish takes a function off the bus and out of the table for a while. Calls
// in flight go on, and calls that wait for a slot wait.
func (p *Publisher) Unpublish(functionID string) {
	p.client.UnregisterFunction(functionID)
	p.server.Table.Unbind(functionID)
}

// Retire is Unpublish for good: calls that wait for a slot fail at once.
func (p *Publisher) Retire(functionID string) {
	p.client.UnregisterFunction(functionID)
	p.server.Table.End(functionID)
}

// Connected says whether the engine can be asked.
func (p *Publisher) Connected() bool { return p.client.Connected() }

// Session changes with every connection; what the engine confirmed in another
// session is worth nothing.
func (p *Publisher) Session() string { return p.client.WorkerID() }

// Owner is the worker that the engine names as a function's owner.
type Owner struct {
	// Found is false if nobody owns the id.
	Found bool
	// Ours is true if this worker does.
	Ours bool
	// WorkerName is the owner's name, possibly empty.
	WorkerName string
}

// Owner asks the engine who owns a function id.
func (p *Publisher) Owner(ctx context.Context, functionID string) (Owner, error) {
	info, err := p.client.FunctionInfo(ctx, functionID, "default")
	if bus.IsNotFound(err) {
		return Owner{}, nil
	}
	if err != nil {
		return Owner{}, err
	}
	if info.WorkerName == p.workerName {
		// The same copy for thousands of functions.
		return Owner{Found: true, Ours: true, WorkerName: p.workerName}, nil
	}
	return Owner{Found: true, WorkerName: info.WorkerName}, nil
}

// Trigger is one binding of a function to a trigger type.
type Trigger struct {
	// ID is the same for the same trigger of the same function, so that binding
	// it again replaces it.
	ID, Type, FunctionID string
	Config, Metadata     json.RawMessage
}

// BindTrigger registers a trigger. Whether the engine took it shows in
// BoundTriggers.
func (p *Publisher) BindTrigger(t Trigger) error {
	return p.client.RegisterTrigger(bus.Trigger{
		ID: t.ID, Type: t.Type, FunctionID: t.FunctionID, Config: t.Config, Metadata: t.Metadata,
	})
}

// UnbindTrigger takes a trigger back.
func (p *Publisher) UnbindTrigger(id string) { p.client.UnregisterTrigger(id) }

// BoundTriggers returns the ids of the function's triggers that the engine
// lists. A trigger whose type nobody provides is not among them
// (contracts/iii-bus.md §6.1).
func (p *Publisher) BoundTriggers(ctx context.Context, functionID string) (map[string]bool, error) {
	list, err := p.client.RegisteredTriggers(ctx, functionID)
	if err != nil {
		return nil, err
	}
	bound := make(map[string]bool, len(list))
	for _, t := range list {
		bound[t.ID] = true
	}
	return bound, nil
}
