package bus

import (
	"encoding/json"
	"errors"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Trigger binds a function to a trigger type (contracts/iii-bus.md §2.7).
type Trigger struct {
	// ID is chosen by us; the same id again supersedes the earlier binding.
	ID string
	// Type is the trigger type. An unknown one parks the trigger without an error
	// (§6.1).
	Type string
	// FunctionID is the target; it need not exist yet.
	FunctionID string
	// Config is for the type's provider; empty means {}.
	Config json.RawMessage
	// Metadata goes to the target with each firing.
	Metadata json.RawMessage
	// Namespace is that of the target function; empty means default.
	Namespace string
	// TriggerNamespace is that of the provider; empty means ours, then default.
	TriggerNamespace string
}

// RegisterTrigger adds a trigger, or replaces the one of the same id: at once
// when connected, and again on every new connection. A refusal comes as an
// event of kind TriggerRejected; success is not acknowledged (§2.8), ask
// RegisteredTriggers.
func (c *Client) RegisterTrigger(t Trigger) error {
	if t.ID == "" || t.Type == "" || t.FunctionID == "" {
		return errors.New("registering a trigger: ID, Type or FunctionID is empty")
	}
	frame, err := encode(&protocol.RegisterTrigger{
		ID:               t.ID,
		TriggerType:      t.Type,
		FunctionID:       t.FunctionID,
		Config:           orEmptyObject(t.Config),
		Metadata:         t.Metadata,
		Namespace:        optional(t.Namespace),
		TriggerNamespace: optional(t.TriggerNamespace),
	})
	if err != nil {
		return actError("registering trigger", t.ID, err)
	}
	put(c.registry, c.registry.triggers, t.ID, t, frame)
	return nil
}

// UnregisterTrigger takes a trigger back; an unknown id is no error.
func (c *Client) UnregisterTrigger(id string) {
	remove(c.registry, c.registry.triggers, id, func(t Trigger) protocol.Message {
		return &protocol.UnregisterTrigger{ID: id, TriggerType: t.Type}
	})
}

func orEmptyObject(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return json.RawMessage("{}")
	}
	return data
}

// optional is nil for an empty text, because the engine refuses a blank
// namespace but takes an absent one as default (§3.2).
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
