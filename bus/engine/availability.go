package engine

import (
	"slices"
	"time"
)

// Events of engine::workers-available (contracts/iii-bus.md §6.3).
const (
	workerConnected       = "worker_connected"
	workerDisconnected    = "worker_disconnected"
	workerMetadataUpdated = "worker_metadata_updated"
)

// workersChanged fires engine::workers-available.
func (e *Engine) workersChanged(event, workerID string) {
	e.fireAll(e.workerWatchers, "", mustJSON(map[string]string{"event": event, "worker_id": workerID}))
}

// watchFunctions fires engine::functions-available when the set of function
// ids is no longer what it was at the last look.
func (e *Engine) watchFunctions() {
	ticker := time.NewTicker(e.config.FunctionsPoll)
	defer ticker.Stop()
	var last []key
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		}
		functions := e.registry.listFunctions(functionFilter{}, nil)
		now := make([]key, len(functions))
		for i, f := range functions {
			now[i] = key{f.Namespace, f.FunctionID}
		}
		if !slices.Equal(last, now) {
			last = now
			e.fireAll(e.functionWatchers, "", mustJSON(map[string]any{"event": "functions_changed", "functions": functions}))
		}
	}
}
