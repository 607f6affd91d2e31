package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// providerPatience is how long engine::register_trigger waits for a custom
// provider; its silence counts as a yes (contracts/iii-bus.md §6.2).
const providerPatience = 10 * time.Second

// registerTrigger is engine::register_trigger: the trigger survives its maker.
func (e *Engine) registerTrigger(ctx context.Context, k *call) (any, *protocol.ErrorBody) {
	b, failed := ownerlessBinding(k)
	if failed != nil {
		return nil, failed
	}
	answers := make(chan providerAnswer, 1)
	e.registry.expectAnswer(b.id, answers)
	defer e.registry.forgetAnswer(b.id)
	if err := e.registry.addBinding(b); err != nil {
		return nil, registrationFailed(err)
	}
	if refused := e.providerAnswer(ctx, b.id, answers); refused != nil {
		e.registry.removeBinding(b.id, nil)
		return nil, &protocol.ErrorBody{Code: protocol.CodeTriggerRegistrationFailed, Message: refused.Message}
	}
	return map[string]string{"id": b.id}, nil
}

func ownerlessBinding(k *call) (*binding, *protocol.ErrorBody) {
	request, failed := decode[struct {
		TriggerType      string          `json:"trigger_type"`
		FunctionID       string          `json:"function_id"`
		Config           json.RawMessage `json:"config"`
		Metadata         json.RawMessage `json:"metadata"`
		TriggerNamespace *string         `json:"trigger_namespace"`
	}](k.data)
	if failed != nil {
		return nil, failed
	}
	if request.TriggerType == "" || request.FunctionID == "" {
		return nil, invalidArguments("trigger_type and function_id are required")
	}
	namespace, failed := namespaceOrDefault(request.TriggerNamespace)
	if failed != nil {
		return nil, failed
	}
	if request.Config == nil {
		request.Config = json.RawMessage("{}")
	}
	b := &binding{
		id: uuid.NewString(), typeID: request.TriggerType, functionID: sessionOf(k).storedID(request.FunctionID),
		targetNamespace: protocol.DefaultNamespace, typeNamespaces: []string{namespace},
		config: request.Config, metadata: request.Metadata,
	}
	if k.caller != nil {
		failed = k.caller.session.mayBind(k.caller.engine.registry, b)
	}
	return b, failed
}

// providerAnswer waits for what a custom provider says; other triggers are
// decided already.
func (e *Engine) providerAnswer(ctx context.Context, id string, answers <-chan providerAnswer) providerAnswer {
	if !e.registry.awaitsAnswer(id) {
		select {
		case answer := <-answers:
			return answer
		default:
			return nil
		}
	}
	timer := time.NewTimer(providerPatience)
	defer timer.Stop()
	select {
	case answer := <-answers:
		return answer
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// unregisterTrigger is engine::unregister_trigger.
func (e *Engine) unregisterTrigger(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decode[struct {
		ID string `json:"id"`
	}](k.data)
	if failed != nil {
		return nil, failed
	}
	if request.ID == "" {
		return nil, &protocol.ErrorBody{Code: protocol.CodeUnregisterFailed, Message: "id is required"}
	}
	var owner *connection
	if k.caller != nil && k.caller.session != nil {
		owner = k.caller
	}
	return map[string]bool{"removed": e.registry.removeBinding(request.ID, owner)}, nil
}

func invalidArguments(message string) *protocol.ErrorBody {
	return &protocol.ErrorBody{Code: protocol.CodeInvalidArguments, Message: message}
}
