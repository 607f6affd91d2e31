package bus

import (
	"context"
	"encoding/json"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// FunctionInfo is what the engine knows of a function
// (contracts/iii-bus.md §7.1). Optional parts are zero when absent.
type FunctionInfo struct {
	FunctionID         string              `json:"function_id"`
	Namespace          string              `json:"namespace"`
	WorkerName         string              `json:"worker_name"`
	Description        string              `json:"description"`
	RequestSchema      json.RawMessage     `json:"request_schema"`
	ResponseSchema     json.RawMessage     `json:"response_schema"`
	Metadata           json.RawMessage     `json:"metadata"`
	RegisteredTriggers []RegisteredTrigger `json:"registered_triggers"`
}

// RegisteredTrigger is a binding that its provider took; parked ones are not
// listed (§6.1). Within FunctionInfo only the first three fields and Config are
// set.
type RegisteredTrigger struct {
	ID            string          `json:"id"`
	TriggerType   string          `json:"trigger_type"`
	FunctionID    string          `json:"function_id"`
	WorkerName    string          `json:"worker_name"`
	Config        json.RawMessage `json:"config"`
	ConfigSummary string          `json:"config_summary"`
}

// FunctionInfo asks the engine for a function; IsNotFound tells that there is
// none. An empty namespace means default, or else the only other one that has
// the id.
func (c *Client) FunctionInfo(ctx context.Context, id, namespace string) (FunctionInfo, error) {
	type request struct {
		FunctionID string `json:"function_id"`
		Namespace  string `json:"namespace,omitempty"`
	}
	info, err := Invoke[FunctionInfo](ctx, c, protocol.FunctionFunctionsInfo, request{id, namespace})
	for i := range info.RegisteredTriggers {
		info.RegisteredTriggers[i].FunctionID = info.FunctionID
	}
	return info, err
}

// RegisteredTriggers asks the engine for the live bindings of a function; an
// empty id means of all functions.
func (c *Client) RegisteredTriggers(ctx context.Context, functionID string) ([]RegisteredTrigger, error) {
	type request struct {
		FunctionID string `json:"function_id,omitempty"`
		// Triggers of internal functions count too.
		IncludeInternal bool `json:"include_internal"`
	}
	type response struct {
		Triggers []RegisteredTrigger `json:"registered_triggers"`
	}
	answer, err := Invoke[response](ctx, c, protocol.FunctionRegisteredList, request{functionID, true})
	return answer.Triggers, err
}
