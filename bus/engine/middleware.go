package engine

import (
	"encoding/json"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// middlewareInput is what a listener's middleware gets (contracts/iii-bus.md
// §9.4).
type middlewareInput struct {
	FunctionID string           `json:"function_id"`
	Payload    json.RawMessage  `json:"payload"`
	Action     *protocol.Action `json:"action"`
	Context    json.RawMessage  `json:"context"`
	Namespace  string           `json:"namespace"`
}

// wrapped turns a call into one of the listener's middleware, which calls the
// function itself and whose result is the call's. Functions of the engine go
// past it, and so do the calls of the worker that serves it, which would else
// come back to itself for ever.
func (c *connection) wrapped(k *call, action *protocol.Action) (*call, bool) {
	if c.middleware == "" || strings.HasPrefix(k.functionID, reservedPrefix) {
		return nil, false
	}
	if fn, _ := c.engine.registry.function(protocol.DefaultNamespace, c.middleware); fn != nil && fn.owner == c {
		return nil, false
	}
	input := middlewareInput{
		FunctionID: k.functionID, Payload: k.data, Action: action, Context: json.RawMessage("{}"), Namespace: k.namespace,
	}
	if c.session != nil {
		input.Context = c.session.context
	}
	w := *k
	w.functionID, w.namespace, w.data = c.middleware, protocol.DefaultNamespace, mustJSON(input)
	return &w, true
}
