package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// maxConfigSummary cuts config_summary, in characters (contracts/iii-bus.md
// §7.1).
const maxConfigSummary = 80

// typeRow is a row of engine::triggers::list.
type typeRow struct {
	ID          string `json:"id"`
	Namespace   string `json:"namespace"`
	WorkerName  string `json:"worker_name"`
	Description string `json:"description"`
}

// typeDetail is the answer of engine::triggers::info.
type typeDetail struct {
	typeRow
	ConfigurationSchema json.RawMessage `json:"configuration_schema,omitempty"`
	RequestSchema       json.RawMessage `json:"request_schema,omitempty"`
	InstanceCount       int             `json:"instance_count"`
}

// bindingRow is a row of engine::registered-triggers::list.
type bindingRow struct {
	ID            string          `json:"id"`
	TriggerType   string          `json:"trigger_type"`
	FunctionID    string          `json:"function_id"`
	WorkerName    string          `json:"worker_name"`
	Config        json.RawMessage `json:"config"`
	ConfigSummary string          `json:"config_summary"`
}

func (e *Engine) triggersList(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	f, failed := decode[functionFilter](k.data)
	if failed != nil {
		return nil, failed
	}
	e.registry.mu.RLock()
	defer e.registry.mu.RUnlock()
	return map[string]any{"triggers": e.registry.typeRows(func(t *triggerType) bool {
		return (f.IncludeInternal || !reserved(t.id)) && strings.HasPrefix(t.id, f.Prefix) &&
			(f.Worker == "" || f.Worker == ownerLabel(t.owner)) && relevance(f.Search, t.id, t.description) > 0
	})}, nil
}

func (e *Engine) triggersInfo(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decode[struct {
		ID        string  `json:"id"`
		Namespace *string `json:"namespace"`
	}](k.data)
	if failed != nil {
		return nil, failed
	}
	namespace, failed := namespaceOrDefault(request.Namespace)
	if failed != nil {
		return nil, failed
	}
	e.registry.mu.RLock()
	defer e.registry.mu.RUnlock()
	t := e.registry.types[key{namespace, request.ID}]
	if t == nil {
		return nil, notFound("trigger type", request.ID)
	}
	return typeDetail{
		typeRow: t.row(), ConfigurationSchema: t.requestFormat, RequestSchema: t.callFormat,
		InstanceCount: len(e.registry.bindingRows(func(b *binding) bool { return b.provider == t })),
	}, nil
}

func (e *Engine) registeredList(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	f, failed := decode[struct {
		functionFilter
		TriggerType string `json:"trigger_type"`
		FunctionID  string `json:"function_id"`
	}](k.data)
	if failed != nil {
		return nil, failed
	}
	s := sessionOf(k)
	e.registry.mu.RLock()
	defer e.registry.mu.RUnlock()
	return map[string]any{"registered_triggers": e.registry.bindingRows(func(b *binding) bool {
		return (f.IncludeInternal || !reserved(b.functionID)) && s.permits(e.registry.targetOf(b.targetNamespace, b.functionID)) &&
			(f.TriggerType == "" || f.TriggerType == b.typeID) && (f.FunctionID == "" || f.FunctionID == b.functionID) &&
			(f.Worker == "" || f.Worker == ownerLabel(b.owner)) && relevance(f.Search, b.functionID, b.typeID) > 0
	})}, nil
}

// registeredInfo gives a trigger together with its type and its function, both
// null where there is none.
func (e *Engine) registeredInfo(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decode[struct {
		ID string `json:"id"`
	}](k.data)
	if failed != nil {
		return nil, failed
	}
	r, s := e.registry, sessionOf(k)
	r.mu.RLock()
	defer r.mu.RUnlock()
	b := r.bindings[request.ID]
	if b == nil || b.provider == nil || !s.permits(r.targetOf(b.targetNamespace, b.functionID)) {
		return nil, notFound("trigger", request.ID)
	}
	info := map[string]any{
		"id": b.id, "trigger_type": b.typeID, "function_id": b.functionID, "worker_name": ownerLabel(b.owner),
		"config": b.config, "trigger": b.provider.row(), "function": nil,
	}
	if b.metadata != nil {
		info["metadata"] = b.metadata
	}
	if fn := r.functions[key{b.targetNamespace, b.functionID}]; fn != nil {
		info["function"] = fn.summary()
	}
	return info, nil
}

// The functions below need registry.mu.

func (t *triggerType) row() typeRow {
	return typeRow{ID: t.id, Namespace: t.namespace, WorkerName: ownerLabel(t.owner), Description: t.description}
}

func (r *registry) typeRows(covers func(*triggerType) bool) []typeRow {
	rows := []typeRow{}
	for _, t := range r.types {
		if covers(t) {
			rows = append(rows, t.row())
		}
	}
	sortBy(rows, func(t typeRow) string { return t.ID + "\x00" + t.Namespace })
	return rows
}

// activeBindings leaves parked triggers out.
func (r *registry) activeBindings() []*binding {
	var active []*binding
	for _, b := range r.bindings {
		if b.provider != nil {
			active = append(active, b)
		}
	}
	sortBy(active, func(b *binding) string { return b.id })
	return active
}

func (r *registry) bindingRows(covers func(*binding) bool) []bindingRow {
	rows := []bindingRow{}
	for _, b := range r.activeBindings() {
		if covers(b) {
			rows = append(rows, bindingRow{
				ID: b.id, TriggerType: b.typeID, FunctionID: b.functionID, WorkerName: ownerLabel(b.owner),
				Config: b.config, ConfigSummary: summarize(b.config),
			})
		}
	}
	return rows
}

func summarize(config json.RawMessage) string {
	runes := []rune(string(config))
	if len(runes) <= maxConfigSummary {
		return string(config)
	}
	return string(runes[:maxConfigSummary]) + "…"
}

func sortBy[T any, K cmp.Ordered](rows []T, by func(T) K) {
	slices.SortFunc(rows, func(a, b T) int { return cmp.Compare(by(a), by(b)) })
}
