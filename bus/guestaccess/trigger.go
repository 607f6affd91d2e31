package guestaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// closedTypes are trigger types of the engine that tell what others store, log or
// do (contracts/iii-bus.md §6.3).
var closedTypes = []string{
	"state", "stream", "stream:join", "stream:leave", "durable:subscriber", "log", "trace", "configuration",
}

// binding is a trigger that a guest wants (contracts/iii-bus.md §9.4).
type binding struct {
	TriggerID   string          `json:"trigger_id"`
	TriggerType string          `json:"trigger_type"`
	FunctionID  string          `json:"function_id"`
	Config      json.RawMessage `json:"config"`
	Namespace   string          `json:"namespace"`
	Context     sessionContext  `json:"context"`
}

// authorizeTrigger lets guests bind triggers to their own functions. The function
// must be registered before the trigger. No value drops the trigger.
func (s *Service) authorizeTrigger(ctx context.Context, inv bus.Invocation) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	var b binding
	if err := json.Unmarshal(inv.Data, &b); err != nil {
		return nil, errors.New("the trigger does not decode")
	}
	s.inspected(b.Context.Guest, triggerAsked)
	if err := s.mayBind(ctx, b); err != nil {
		s.Logger.Debug("Trigger refused", "type", b.TriggerType, "function", b.FunctionID,
			"namespace", b.Context.Guest.Namespace, "name", b.Context.Guest.Name, "cause", err)
		return nil, nil
	}
	return json.RawMessage("{}"), nil
}

func (s *Service) mayBind(ctx context.Context, b binding) error {
	switch {
	case b.Context.Guest == (Guest{}):
		return errors.New("not a session of a guest")
	case b.Namespace != "" && b.Namespace != protocol.DefaultNamespace:
		return errors.New("another bus namespace")
	case slices.Contains(closedTypes, b.TriggerType) || strings.HasPrefix(b.TriggerType, enginePrefix):
		return errors.New("the type tells of others")
	}
	targets, err := b.targets()
	if err != nil {
		return err
	}
	for _, id := range targets {
		if err := s.owns(ctx, b.Context.Guest, id); err != nil {
			return err
		}
	}
	return s.isFree(ctx, b)
}

// targets are all functions that the trigger makes the engine call: a condition
// would be a way around the session's policy.
func (b binding) targets() ([]string, error) {
	var config struct {
		Condition  string   `json:"condition_function_id"`
		Middleware []string `json:"middleware_function_ids"`
	}
	if len(b.Config) > 0 && json.Unmarshal(b.Config, &config) != nil {
		return nil, errors.New("the config does not decode")
	}
	ids := append([]string{b.FunctionID}, config.Middleware...)
	if config.Condition != "" {
		ids = append(ids, config.Condition)
	}
	return ids, nil
}

// owns asks the engine for the mark that the registration left.
func (s *Service) owns(ctx context.Context, g Guest, functionID string) error {
	info, err := s.Bus.FunctionInfo(ctx, functionID, protocol.DefaultNamespace)
	if err != nil {
		return fmt.Errorf("asking whose %s is: %w", functionID, err)
	}
	var metadata map[string]any
	if json.Unmarshal(info.Metadata, &metadata) != nil || metadata[ownerKey] != g.owner() {
		return fmt.Errorf("%s is not a function of this guest", functionID)
	}
	return nil
}

// isFree keeps a guest from replacing a trigger: the engine takes the later one
// of the same id, whoever sends it (contracts/iii-bus.md §2.9).
func (s *Service) isFree(ctx context.Context, b binding) error {
	request, err := json.Marshal(map[string]string{"id": b.TriggerID})
	if err != nil {
		return err
	}
	answer, err := s.Bus.Call(ctx, bus.Call{FunctionID: protocol.FunctionRegisteredInfo, Data: request})
	if bus.RemoteCode(err) == protocol.CodeNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking for the trigger: %w", err)
	}
	var present struct {
		FunctionID string `json:"function_id"`
	}
	// Its own one again, as after a reconnect, is no theft.
	if json.Unmarshal(answer, &present) != nil || present.FunctionID != b.FunctionID {
		return errors.New("the trigger's id is taken")
	}
	return nil
}
