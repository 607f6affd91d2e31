package engine

import (
	"context"
	"encoding/json"
)

// maxDeliveries bounds how many firings of one trigger may wait for a slow
// worker; more are lost, as firing is fire and forget (contracts/iii-bus.md §6.4).
const maxDeliveries = 256

// conditional is the part that built-in types' configurations share.
type conditional struct {
	ConditionFunctionID string `json:"condition_function_id"`
}

// fire sends a trigger's payload to its function in the background, so that no
// subscriber holds up another.
func (e *Engine) fire(b *binding, condition string, payload json.RawMessage) {
	if b.deliveries.Add(1) > maxDeliveries {
		b.deliveries.Add(-1)
		e.log.Warn("Firing lost: the worker does not keep up", "trigger", b.id, "type", b.typeID)
		return
	}
	started := e.tasks.start(func() {
		defer b.deliveries.Add(-1)
		if e.conditionHolds(e.ctx, b, condition, payload) {
			e.dispatch(e.ctx, &call{
				functionID: b.functionID, namespace: b.targetNamespace, data: payload, metadata: b.metadata,
			})
		}
	})
	if !started {
		b.deliveries.Add(-1)
	}
}

// conditionHolds asks the condition function: a literal false and an error
// mean no, everything else yes (§6.3).
func (e *Engine) conditionHolds(ctx context.Context, b *binding, condition string, payload json.RawMessage) bool {
	if condition == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, e.config.HTTPTimeout)
	defer cancel()
	o := e.invoke(ctx, condition, payload)
	if o.err != nil {
		e.log.Info("Condition failed", "trigger", b.id, "condition", condition, "code", o.err.Code)
		return false
	}
	return string(o.result) != "false"
}
