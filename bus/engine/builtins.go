package engine

import (
	"context"
	"encoding/json"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// builtin is a function of the engine itself. A nil value of handle is "no
// value" on the wire. Input that does not decode is the handler's error.
type builtin struct {
	id          string
	description string
	// background handlers may wait for workers; the others run in the caller's
	// order.
	background bool
	handle     func(ctx context.Context, k *call) (any, *protocol.ErrorBody)
}

// addBuiltinFunctions fills default with contracts/iii-bus.md §7.
func (e *Engine) addBuiltinFunctions() {
	for _, b := range []*builtin{
		{id: protocol.FunctionWorkersRegister, description: "Tell the engine about a worker", handle: e.registerMetadata},
		{id: protocol.FunctionWorkersList, description: "List connected workers", handle: e.workersList},
		{id: protocol.FunctionWorkersInfo, description: "Describe a worker", handle: e.workersInfo},
		{id: protocol.FunctionFunctionsList, description: "List functions", handle: e.functionsList},
		{id: protocol.FunctionFunctionsInfo, description: "Describe functions", handle: e.functionsInfo},
		{id: protocol.FunctionTriggersList, description: "List trigger types", handle: e.triggersList},
		{id: protocol.FunctionTriggersInfo, description: "Describe a trigger type", handle: e.triggersInfo},
		{id: protocol.FunctionRegisteredList, description: "List triggers", handle: e.registeredList},
		{id: protocol.FunctionRegisteredInfo, description: "Describe a trigger", handle: e.registeredInfo},
		{id: protocol.FunctionRegisterTrigger, description: "Register a trigger", handle: e.registerTrigger, background: true},
		{id: protocol.FunctionUnregisterTrigger, description: "Remove a trigger", handle: e.unregisterTrigger},
		{id: protocol.FunctionChannelsCreate, description: "Create a data channel", handle: e.createChannel},
		{id: "state::set", description: "Store a value (kept in memory)", handle: e.stateSet},
		{id: "state::get", description: "Read a value", handle: e.stateGet},
		{id: "state::delete", description: "Remove a value", handle: e.stateDelete},
		{id: "state::update", description: "Change a value in one step", handle: e.stateUpdate},
		{id: "state::list", description: "List the values of a scope", handle: e.stateList},
		{id: "state::list_groups", description: "List the scopes", handle: e.stateListGroups},
		{id: "publish", description: "Publish to a topic", handle: e.publish},
		{id: "engine::baggage::get", description: "Read a baggage entry", handle: baggageGet},
		{id: "engine::baggage::set", description: "Set a baggage entry", handle: baggageSet},
		{id: "engine::baggage::get_all", description: "Read all baggage", handle: baggageGetAll},
	} {
		e.registry.addBuiltin(b)
	}
	if e.queues != nil {
		for _, b := range e.queues.functions() {
			e.registry.addBuiltin(b)
		}
	}
	for name, level := range logLevels {
		e.registry.addBuiltin(&builtin{
			id: "engine::log::" + name, description: "Write to the engine's log", handle: e.logAt(level),
		})
	}
}

// addBuiltinTriggerTypes offers the types of §6.3 that this engine serves.
func (e *Engine) addBuiltinTriggerTypes() {
	e.subscribers = newTopics(subscribeTopic)
	e.workerWatchers = newTopics(anyTopic)
	e.functionWatchers = newTopics(anyTopic)
	e.stateWatchers = newStateWatchers()
	for _, t := range []*triggerType{
		{id: "cron", description: "Fires on a schedule", builtin: newSchedules(e)},
		{id: "subscribe", description: "Fires when data is published to a topic", builtin: e.subscribers},
		{id: "state", description: "Fires when a stored value changes", builtin: e.stateWatchers},
		{id: "engine::workers-available", description: "Fires when workers come, change or go", builtin: e.workerWatchers},
		{id: "engine::functions-available", description: "Fires when the set of functions changes", builtin: e.functionWatchers},
	} {
		e.registry.addBuiltinType(t)
	}
	if e.queues != nil {
		e.registry.addBuiltinType(&triggerType{
			id: "durable:subscriber", description: "Fires for each message of a topic, with retries", builtin: e.queues,
		})
	}
	if e.config.HTTPAddress != "" {
		e.registry.addBuiltinType(&triggerType{
			id: "http", description: "Fires on an HTTP request", builtin: e.routes,
			requestFormat: httpConfigSchema, callFormat: httpCallSchema,
		})
	}
}

func (e *Engine) runBuiltin(ctx context.Context, b *builtin, k *call) {
	run := func() { k.finish(builtinOutcome(b.handle(ctx, k))) }
	if !b.background {
		run()
		return
	}
	if !e.tasks.start(run) {
		k.finish(stopped())
	}
}

func builtinOutcome(value any, failed *protocol.ErrorBody) outcome {
	if failed != nil || value == nil {
		return outcome{err: failed}
	}
	return outcome{result: mustJSON(value)}
}

// decode reads a builtin's input; null is the zero value.
func decode[T any](data json.RawMessage) (T, *protocol.ErrorBody) {
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		return value, &protocol.ErrorBody{Code: protocol.CodeDeserializationError, Message: err.Error()}
	}
	return value, nil
}
