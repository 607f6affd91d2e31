package shim

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

const (
	workersTriggerType = "engine::workers-available"
	workerDisconnected = "worker_disconnected"
)

// onWorkerChange ends what a worker asked for that disconnected, so that its
// sandboxes go at once (contracts/code-runner.md §18 A33, §19 X14).
//
// The id is visible on the bus, so that anybody may claim that a worker left:
// a call with a caller is none of the engine's deliveries, and the engine is
// asked whether the worker is there.
func (s *Shim) onWorkerChange(ctx context.Context, inv bus.Invocation) (json.RawMessage, error) {
	var change struct {
		Event    string `json:"event"`
		WorkerID string `json:"worker_id"`
	}
	understood := json.Unmarshal(inv.Data, &change) == nil && change.Event == workerDisconnected
	if understood && inv.CallerWorkerID() == "" && s.callers.busy(change.WorkerID) && !s.isConnected(ctx, change.WorkerID) {
		s.callers.end(change.WorkerID)
	}
	return nil, nil
}

// isConnected says true in doubt: a run ends by itself, one that was ended
// wrongly does not come back.
func (s *Shim) isConnected(ctx context.Context, worker string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer, err := s.Bus.Call(ctx, bus.Call{FunctionID: protocol.FunctionWorkersList})
	type row struct {
		ID string `json:"id"`
	}
	var list struct {
		Workers []row `json:"workers"`
	}
	if err != nil || json.Unmarshal(answer, &list) != nil {
		return true
	}
	return slices.ContainsFunc(list.Workers, func(r row) bool { return r.ID == worker })
}
