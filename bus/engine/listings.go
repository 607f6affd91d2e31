package engine

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// engineName is what listings call the engine where a worker's name belongs.
const engineName = "iii-engine"

// functionSummary is a row of engine::functions::list (contracts/iii-bus.md
// §7.1).
type functionSummary struct {
	FunctionID  string          `json:"function_id"`
	Namespace   string          `json:"namespace"`
	WorkerName  string          `json:"worker_name"`
	Description string          `json:"description,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
}

// functionFilter is the request of engine::functions::list; empty fields let
// everything through.
type functionFilter struct {
	Search          string   `json:"search"`
	Prefix          string   `json:"prefix"`
	Worker          string   `json:"worker"`
	Workers         []string `json:"workers"`
	IncludeInternal bool     `json:"include_internal"`
}

// listFunctions returns the functions that a session may call, by relevance
// for a search and else by id.
func (r *registry) listFunctions(f functionFilter, s *session) []functionSummary {
	r.mu.RLock()
	defer r.mu.RUnlock()
	rows := []functionSummary{}
	for _, fn := range r.functions {
		row := fn.summary()
		if f.covers(fn, row) && s.permits(fn.target()) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b functionSummary) int {
		if d := relevance(f.Search, b.FunctionID, b.Description) - relevance(f.Search, a.FunctionID, a.Description); d != 0 {
			return d
		}
		return strings.Compare(a.FunctionID+"\x00"+a.Namespace, b.FunctionID+"\x00"+b.Namespace)
	})
	return rows
}

func (f functionFilter) covers(fn *function, row functionSummary) bool {
	return (f.IncludeInternal || !fn.internal()) && strings.HasPrefix(fn.id, f.Prefix) &&
		(f.Worker == "" || f.Worker == row.WorkerName) &&
		(len(f.Workers) == 0 || slices.Contains(f.Workers, row.WorkerName)) &&
		relevance(f.Search, fn.id, fn.description) > 0
}

// summary needs registry.mu, for the worker's name.
func (fn *function) summary() functionSummary {
	return functionSummary{
		FunctionID: fn.id, Namespace: fn.namespace, WorkerName: ownerLabel(fn.owner),
		Description: fn.description, Metadata: fn.metadata,
	}
}

// internal functions are hidden from listings unless asked for.
func (fn *function) internal() bool {
	return reserved(fn.id) || internalMetadata(fn.metadata)
}

func internalMetadata(metadata json.RawMessage) bool {
	var m struct {
		Internal any `json:"internal"`
	}
	return json.Unmarshal(metadata, &m) == nil && m.Internal == true
}

// ownerLabel needs registry.mu.
func ownerLabel(owner *connection) string {
	if owner == nil {
		return engineName
	}
	return owner.label()
}

// relevance ranks how well a search fits: 0 not at all, more is better. An
// empty search fits everything alike.
func relevance(search, id, description string) int {
	search, id = strings.ToLower(search), strings.ToLower(id)
	switch {
	case search == "" || search == id:
		return 4
	case strings.HasPrefix(id, search):
		return 3
	case strings.Contains(id, search):
		return 2
	case strings.Contains(strings.ToLower(description), search):
		return 1
	}
	return 0
}

// workerSummary is a row of engine::workers::list.
type workerSummary struct {
	Name              *string `json:"name"`
	Description       *string `json:"description"`
	Version           *string `json:"version"`
	ID                string  `json:"id"`
	Namespace         string  `json:"namespace"`
	Runtime           string  `json:"runtime"`
	OS                *string `json:"os"`
	Status            string  `json:"status"`
	FunctionCount     int     `json:"function_count"`
	ConnectedAtMS     int64   `json:"connected_at_ms"`
	ActiveInvocations int     `json:"active_invocations"`
	Isolation         *string `json:"isolation"`
	IPAddress         string  `json:"ip_address"`
}

// workerFilter is the request of engine::workers::list.
type workerFilter struct {
	Search  string `json:"search"`
	Runtime string `json:"runtime"`
	Status  string `json:"status"`
}

// listWorkers returns the connections that have said their pid, by name.
func (r *registry) listWorkers(f workerFilter) []workerSummary {
	r.mu.RLock()
	defer r.mu.RUnlock()
	counts := r.functionCounts()
	rows := []workerSummary{}
	for _, c := range r.workers {
		row := c.summary(counts[c])
		if c.metadata.PID != nil && f.covers(row) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b workerSummary) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	return rows
}

func (r *registry) functionCounts() map[*connection]int {
	counts := map[*connection]int{}
	for _, fn := range r.functions {
		counts[fn.owner]++
	}
	return counts
}

func (f workerFilter) covers(row workerSummary) bool {
	return (f.Runtime == "" || f.Runtime == row.Runtime) && (f.Status == "" || f.Status == row.Status) &&
		relevance(f.Search, deref(row.Name), deref(row.Description)) > 0
}

func (w workerSummary) sortKey() string { return deref(w.Name) + "\x00" + w.ID }

// summary needs registry.mu.
func (c *connection) summary(functions int) workerSummary {
	m := c.metadata
	return workerSummary{
		Name: m.Name, Description: m.Description, Version: m.Version, ID: c.id, Namespace: c.namespace,
		Runtime: firstOf(m.Runtime, "unknown"), OS: m.OS, Status: "connected", FunctionCount: functions,
		ConnectedAtMS: c.connectedAt.UnixNano() / int64(time.Millisecond), ActiveInvocations: c.pending.count(),
		Isolation: m.Isolation, IPAddress: c.address,
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func notFound(what, id string) *protocol.ErrorBody {
	return &protocol.ErrorBody{Code: protocol.CodeNotFound, Message: what + " " + id + " not found"}
}
