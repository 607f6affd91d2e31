package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// hookPatience bounds a hook's answer; the worker's later messages wait
// meanwhile.
const hookPatience = 10 * time.Second

// hooks are the functions that see a session's registrations before the engine
// takes them; empty ones see nothing (contracts/iii-bus.md §9.4).
type hooks struct{ function, trigger, triggerType string }

// askHook returns what a hook answers. False drops the registration without a
// word: the hook failed, was silent or answered no object.
func (c *connection) askHook(id string, input map[string]any) (json.RawMessage, bool) {
	input["context"] = c.session.context
	ctx, cancel := context.WithTimeout(c.ctx, hookPatience)
	defer cancel()
	o := c.engine.invoke(ctx, id, mustJSON(input))
	if o.err != nil || !bytes.HasPrefix(bytes.TrimSpace(o.result), []byte("{")) {
		c.engine.log.Info("Registration dropped by a hook", "worker", c.id, "hook", id)
		return nil, false
	}
	return o.result, true
}

// hookFunction is the function as its hook wants it, the input if there is no
// hook.
func (c *connection) hookFunction(m *protocol.RegisterFunction) (*protocol.RegisterFunction, bool) {
	if c.session == nil || c.session.hooks.function == "" {
		return m, true
	}
	answer, ok := c.askHook(c.session.hooks.function, map[string]any{
		"function_id": m.ID, "description": m.Description, "metadata": m.Metadata, "namespace": c.engine.registry.namespaceOf(c),
	})
	if !ok {
		return nil, false
	}
	changed := *m
	fields := struct {
		FunctionID  *string         `json:"function_id"`
		Description *string         `json:"description"`
		Metadata    json.RawMessage `json:"metadata"`
	}{}
	if json.Unmarshal(answer, &fields) != nil {
		return nil, false
	}
	replace(&changed.ID, fields.FunctionID)
	replace(&changed.Description, fields.Description)
	if fields.Metadata != nil {
		changed.Metadata = fields.Metadata
	}
	return &changed, true
}

// hookTrigger is hookFunction for a trigger.
func (c *connection) hookTrigger(m *protocol.RegisterTrigger) (*protocol.RegisterTrigger, bool) {
	if c.session == nil || c.session.hooks.trigger == "" {
		return m, true
	}
	namespace := protocol.DefaultNamespace
	replace(&namespace, m.Namespace)
	answer, ok := c.askHook(c.session.hooks.trigger, map[string]any{
		"trigger_id": m.ID, "trigger_type": m.TriggerType, "function_id": m.FunctionID,
		"config": m.Config, "metadata": m.Metadata, "namespace": namespace,
	})
	if !ok {
		return nil, false
	}
	changed := *m
	fields := struct {
		TriggerID   *string         `json:"trigger_id"`
		TriggerType *string         `json:"trigger_type"`
		FunctionID  *string         `json:"function_id"`
		Config      json.RawMessage `json:"config"`
		Metadata    json.RawMessage `json:"metadata"`
	}{}
	if json.Unmarshal(answer, &fields) != nil {
		return nil, false
	}
	replace(&changed.ID, fields.TriggerID)
	replace(&changed.TriggerType, fields.TriggerType)
	replace(&changed.FunctionID, fields.FunctionID)
	if fields.Config != nil {
		changed.Config = fields.Config
	}
	if fields.Metadata != nil {
		changed.Metadata = fields.Metadata
	}
	return &changed, true
}

// hookTriggerType is hookFunction for a trigger type.
func (c *connection) hookTriggerType(m *protocol.RegisterTriggerType) (*protocol.RegisterTriggerType, bool) {
	if c.session == nil || c.session.hooks.triggerType == "" {
		return m, true
	}
	answer, ok := c.askHook(c.session.hooks.triggerType, map[string]any{
		"trigger_type_id": m.ID, "description": m.Description,
	})
	if !ok {
		return nil, false
	}
	changed := *m
	fields := struct {
		TriggerTypeID *string `json:"trigger_type_id"`
		Description   *string `json:"description"`
	}{}
	if json.Unmarshal(answer, &fields) != nil {
		return nil, false
	}
	replace(&changed.ID, fields.TriggerTypeID)
	replace(&changed.Description, fields.Description)
	return &changed, true
}

func replace(field *string, by *string) {
	if by != nil && *by != "" {
		*field = *by
	}
}
