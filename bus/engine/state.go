package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Bounds of the state store, which is kept in memory and gone with the engine.
const (
	// maxStateValueBytes bounds one value, as documents speak of frames of about
	// 16 MB (contracts/iii-bus.md §1.3).
	maxStateValueBytes = 16 << 20
	// maxStateBytes bounds all values together.
	maxStateBytes = 1 << 30
)

// Events of the trigger type state (§6.3).
const (
	stateCreated = "state:created"
	stateUpdated = "state:updated"
	stateDeleted = "state:deleted"
)

// stateChange is what a state trigger delivers. Absent values are null.
type stateChange struct {
	Type      string          `json:"type"`
	EventType string          `json:"event_type"`
	Scope     string          `json:"scope"`
	Key       string          `json:"key"`
	OldValue  json.RawMessage `json:"old_value"`
	NewValue  json.RawMessage `json:"new_value"`
}

// stateValues is the store: values by scope and key. A nil value is absent.
type stateValues struct {
	mu     sync.Mutex
	scopes map[string]map[string]json.RawMessage
	bytes  int
}

var errValueTooLarge = errors.New("the value is too large")

func newStateValues() *stateValues {
	return &stateValues{scopes: map[string]map[string]json.RawMessage{}}
}

func (v *stateValues) get(scope, key string) json.RawMessage {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.scopes[scope][key]
}

// change replaces a value by what update makes of it, as one step; update gets
// nil for an absent value and returns nil to remove it.
func (v *stateValues) change(scope, key string, update func(old json.RawMessage) (json.RawMessage, error)) (stateChange, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.scopes[scope][key]
	value, err := update(old)
	if err != nil {
		return stateChange{}, err
	}
	total := v.bytes + len(value) - len(old)
	if len(value) > maxStateValueBytes || total > maxStateBytes && len(value) > len(old) {
		return stateChange{}, errValueTooLarge
	}
	v.bytes = total
	v.store(scope, key, value)
	return stateChange{Type: "state", EventType: stateEvent(old, value), Scope: scope, Key: key, OldValue: old, NewValue: value}, nil
}

// store needs mu.
func (v *stateValues) store(scope, key string, value json.RawMessage) {
	if value == nil {
		delete(v.scopes[scope], key)
		if len(v.scopes[scope]) == 0 {
			delete(v.scopes, scope)
		}
		return
	}
	if v.scopes[scope] == nil {
		v.scopes[scope] = map[string]json.RawMessage{}
	}
	v.scopes[scope][key] = value
}

// stateEvent names a change; "" when nothing was and nothing is.
func stateEvent(old, value json.RawMessage) string {
	switch {
	case old == nil && value == nil:
		return ""
	case old == nil:
		return stateCreated
	case value == nil:
		return stateDeleted
	}
	return stateUpdated
}

// list returns the values of a scope, by key.
func (v *stateValues) list(scope string) []json.RawMessage {
	v.mu.Lock()
	defer v.mu.Unlock()
	values := []json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(v.scopes[scope])) {
		values = append(values, v.scopes[scope][key])
	}
	return values
}

func (v *stateValues) groups() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.AppendSeq([]string{}, maps.Keys(v.scopes))
}

// stateRequest is the input of the functions that name one value.
type stateRequest struct {
	Scope string          `json:"scope"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
	// Data is another name of Value.
	Data json.RawMessage `json:"data"`
	Ops  []updateOp      `json:"ops"`
}

// stateResult is the output of state::set and state::update.
type stateResult struct {
	OldValue json.RawMessage `json:"old_value"`
	NewValue json.RawMessage `json:"new_value"`
	Errors   []updateError   `json:"errors,omitempty"`
}

// decodeState reads a request; code is that of the function's own errors.
func decodeState(k *call, code string) (stateRequest, *protocol.ErrorBody) {
	request, failed := decode[stateRequest](k.data)
	if failed == nil && (request.Scope == "" || request.Key == "") {
		failed = &protocol.ErrorBody{Code: code, Message: "scope and key are required"}
	}
	return request, failed
}

// stateSet is state::set (§7.2).
func (e *Engine) stateSet(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decodeState(k, protocol.CodeSetError)
	if failed != nil {
		return nil, failed
	}
	value := request.Value
	if value == nil {
		value = request.Data
	}
	if value == nil {
		value = json.RawMessage("null")
	}
	change, failed := e.changeState(request, protocol.CodeSetError, func(json.RawMessage) (json.RawMessage, error) { return value, nil })
	if failed != nil {
		return nil, failed
	}
	return stateResult{OldValue: change.OldValue, NewValue: change.NewValue}, nil
}

// stateGet is state::get; an absent value is no value, not null.
func (e *Engine) stateGet(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decodeState(k, protocol.CodeGetError)
	if failed != nil {
		return nil, failed
	}
	return orNoValue(e.state.get(request.Scope, request.Key)), nil
}

// stateDelete is state::delete; it answers with the old value.
func (e *Engine) stateDelete(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decodeState(k, protocol.CodeDeleteError)
	if failed != nil {
		return nil, failed
	}
	change, failed := e.changeState(request, protocol.CodeDeleteError, func(json.RawMessage) (json.RawMessage, error) { return nil, nil })
	if failed != nil {
		return nil, failed
	}
	return orNoValue(change.OldValue), nil
}

// stateUpdate is state::update: all operations in one step, and what failed of
// them is told beside the result.
func (e *Engine) stateUpdate(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decodeState(k, protocol.CodeUpdateError)
	if failed != nil {
		return nil, failed
	}
	var problems []updateError
	change, failed := e.changeState(request, protocol.CodeUpdateError, func(old json.RawMessage) (json.RawMessage, error) {
		value, errs, err := applyUpdates(old, request.Ops)
		problems = errs
		return value, err
	})
	if failed != nil {
		return nil, failed
	}
	return stateResult{OldValue: change.OldValue, NewValue: change.NewValue, Errors: problems}, nil
}

// changeState changes a value and fires the triggers that watch it.
func (e *Engine) changeState(request stateRequest, code string, update func(json.RawMessage) (json.RawMessage, error)) (stateChange, *protocol.ErrorBody) {
	change, err := e.state.change(request.Scope, request.Key, update)
	switch {
	case errors.Is(err, errValueTooLarge):
		return change, &protocol.ErrorBody{Code: protocol.CodeValueTooLarge, Message: fmt.Sprintf("a value may have %d bytes", maxStateValueBytes)}
	case err != nil:
		return change, &protocol.ErrorBody{Code: code, Message: err.Error()}
	}
	if change.EventType != "" {
		e.stateWatchers.changed(e, change)
	}
	return change, nil
}

// stateList is state::list.
func (e *Engine) stateList(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decode[stateRequest](k.data)
	if failed != nil {
		return nil, failed
	}
	if request.Scope == "" {
		return nil, &protocol.ErrorBody{Code: protocol.CodeListError, Message: "scope is required"}
	}
	return e.state.list(request.Scope), nil
}

// stateListGroups is state::list_groups.
func (e *Engine) stateListGroups(context.Context, *call) (any, *protocol.ErrorBody) {
	groups := e.state.groups()
	slices.Sort(groups)
	return map[string]any{"groups": groups}, nil
}

// orNoValue keeps a nil value from becoming null on its way through any.
func orNoValue(value json.RawMessage) any {
	if value == nil {
		return nil
	}
	return value
}
