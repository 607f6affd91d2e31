package daemon

import (
	"context"
	"time"
)

type listRequest struct{}

type listResponse struct {
	Sandboxes []listRow `json:"sandboxes"`
}

// listRow is one sandbox (contracts/iii-sandbox.md §3.5).
type listRow struct {
	SandboxID      string  `json:"sandbox_id"`
	Name           *string `json:"name"`
	Image          string  `json:"image"`
	AgeSecs        int64   `json:"age_secs"`
	ExecInProgress bool    `json:"exec_in_progress"`
	ExecInFlight   int     `json:"exec_in_flight"`
	ExecSlotsFree  int     `json:"exec_slots_free"`
	Stopped        bool    `json:"stopped"`
	// Isolation is ours: the word for what separates the guest from the host.
	Isolation string `json:"isolation"`
}

// list answers with every sandbox, those that ended by themselves included
// until the reaper has seen them.
func (d *Daemon) list(context.Context, listRequest) (listResponse, error) {
	return listResponse{Sandboxes: d.registry.rows(d.backend.Isolation())}, nil
}

func (r *registry) rows(isolation string) []listRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]listRow, 0, len(r.entries))
	for _, e := range r.entries {
		rows = append(rows, listRow{
			SandboxID: e.id, Name: e.name, Image: e.image,
			AgeSecs:        int64(r.now().Sub(e.created) / time.Second),
			ExecInProgress: e.inFlight > 0, ExecInFlight: e.inFlight,
			ExecSlotsFree: r.execSlots - e.inFlight,
			Stopped:       e.stopped, Isolation: isolation,
		})
	}
	return rows
}
