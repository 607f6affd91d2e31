package engine

import (
	"context"
	"encoding/json"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// maxInfoBatch bounds function_ids of engine::functions::info
// (contracts/iii-bus.md §12).
const maxInfoBatch = 32

// functionDetail is the answer of engine::functions::info.
type functionDetail struct {
	functionSummary
	RequestSchema      json.RawMessage  `json:"request_schema,omitempty"`
	ResponseSchema     json.RawMessage  `json:"response_schema,omitempty"`
	RegisteredTriggers []triggerOfEntry `json:"registered_triggers"`
}

type triggerOfEntry struct {
	ID          string          `json:"id"`
	TriggerType string          `json:"trigger_type"`
	Config      json.RawMessage `json:"config"`
}

func sessionOf(k *call) *session {
	if k.caller == nil {
		return nil
	}
	return k.caller.session
}

func (e *Engine) functionsList(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	filter, failed := decode[functionFilter](k.data)
	if failed != nil {
		return nil, failed
	}
	return map[string]any{"functions": e.registry.listFunctions(filter, sessionOf(k))}, nil
}

func (e *Engine) functionsInfo(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decode[struct {
		FunctionID  string   `json:"function_id"`
		FunctionIDs []string `json:"function_ids"`
		Namespace   *string  `json:"namespace"`
	}](k.data)
	switch {
	case failed != nil:
		return nil, failed
	case (request.FunctionID == "") == (len(request.FunctionIDs) == 0):
		return nil, invalidArguments("exactly one of function_id and function_ids is required")
	case len(request.FunctionIDs) > maxInfoBatch:
		return nil, invalidArguments("function_ids has more than 32 entries")
	case request.Namespace != nil:
		if _, failed := namespaceOrDefault(request.Namespace); failed != nil {
			return nil, failed
		}
	}
	if request.FunctionID != "" {
		detail, failed := e.registry.describe(request.FunctionID, request.Namespace, sessionOf(k))
		if failed != nil {
			return nil, failed
		}
		return detail, nil
	}
	return map[string]any{"functions": e.describeAll(request.FunctionIDs, request.Namespace, sessionOf(k))}, nil
}

// describeAll keeps the order asked for; what cannot be shown is an entry with
// an error.
func (e *Engine) describeAll(ids []string, namespace *string, s *session) []any {
	entries := []any{}
	for _, id := range ids {
		detail, failed := e.registry.describe(id, namespace, s)
		switch {
		case failed == nil:
			entries = append(entries, detail)
		case failed.Code == protocol.CodeForbidden:
			entries = append(entries, map[string]string{"function_id": id, "error": "forbidden"})
		default:
			entries = append(entries, map[string]string{"function_id": id, "error": "not_found"})
		}
	}
	return entries
}

// describe finds a function: in the namespace named, else in default, else in
// the only other one that has it.
func (r *registry) describe(id string, namespace *string, s *session) (*functionDetail, *protocol.ErrorBody) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	fn := r.resolve(id, namespace)
	if fn == nil {
		return nil, notFound("function", id)
	}
	if failed := s.mayCall(fn.target()); failed != nil {
		return nil, failed
	}
	return r.detail(fn), nil
}

func (r *registry) resolve(id string, namespace *string) *function {
	if namespace != nil {
		return r.functions[key{*namespace, id}]
	}
	if fn := r.functions[key{protocol.DefaultNamespace, id}]; fn != nil {
		return fn
	}
	if len(r.byID[id]) == 1 {
		for only := range r.byID[id] {
			return r.functions[key{only, id}]
		}
	}
	return nil
}

func (r *registry) detail(fn *function) *functionDetail {
	d := &functionDetail{
		functionSummary: fn.summary(), RequestSchema: fn.requestFormat, ResponseSchema: fn.responseFormat,
		RegisteredTriggers: []triggerOfEntry{},
	}
	for _, b := range r.activeBindings() {
		if b.functionID == fn.id && b.targetNamespace == fn.namespace {
			d.RegisteredTriggers = append(d.RegisteredTriggers, triggerOfEntry{b.id, b.typeID, b.config})
		}
	}
	return d
}

func (e *Engine) workersList(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	filter, failed := decode[workerFilter](k.data)
	if failed != nil {
		return nil, failed
	}
	return map[string]any{"workers": e.registry.listWorkers(filter)}, nil
}

func (e *Engine) workersInfo(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decode[struct {
		Name      string  `json:"name"`
		Namespace *string `json:"namespace"`
	}](k.data)
	if failed != nil {
		return nil, failed
	}
	if request.Name == "" {
		return nil, invalidArguments("name is required")
	}
	namespace, failed := namespaceOrDefault(request.Namespace)
	if failed != nil {
		return nil, failed
	}
	return e.registry.workerInfo(key{namespace, request.Name}, sessionOf(k))
}

// workerDetail is the worker of engine::workers::info.
type workerDetail struct {
	workerSummary
	PID           *uint32 `json:"pid"`
	Internal      bool    `json:"internal"`
	LatestMetrics any     `json:"latest_metrics"`
}

func (r *registry) workerInfo(name key, s *session) (any, *protocol.ErrorBody) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := r.names[name]
	if c == nil {
		return nil, notFound("worker", name.id)
	}
	functions := []functionSummary{}
	for _, fn := range r.functions {
		if fn.owner == c && s.permits(fn.target()) {
			functions = append(functions, fn.summary())
		}
	}
	sortBy(functions, func(f functionSummary) string { return f.FunctionID })
	return map[string]any{
		"worker":              workerDetail{workerSummary: c.summary(len(functions)), PID: c.metadata.PID},
		"functions":           functions,
		"trigger_types":       r.typeRows(func(t *triggerType) bool { return t.owner == c }),
		"registered_triggers": r.bindingRows(func(b *binding) bool { return b.owner == c && s.permits(r.targetOf(b.targetNamespace, b.functionID)) }),
	}, nil
}
