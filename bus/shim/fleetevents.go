package shim

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// fleetLook is how often the last reading of the daemon's list is looked at; the
// reading itself has its own rate.
const fleetLook = time.Second

// fleetEvent is the part of a fleet event that others lack
// (contracts/code-runner.md §15).
type fleetEvent struct {
	DaemonAbsent bool         `json:"daemon_absent"`
	Sandboxes    []sandboxRow `json:"sandboxes"`
}

// sandboxRow is one sandbox. Its id is for open capabilities only; its reference
// is the same as long as this process lives.
type sandboxRow struct {
	Reference    string `json:"sandbox_reference"`
	SandboxID    string `json:"sandbox_id,omitempty"`
	Image        string `json:"image,omitempty"`
	Stopped      bool   `json:"stopped"`
	AgeSecs      int64  `json:"age_secs"`
	ExecInFlight int    `json:"exec_in_flight"`
}

// watchFleet emits an event when the list differs in more than ages. It asks for
// frequent readings only while there are subscribers.
func (s *Shim) watchFleet(ctx context.Context) {
	var last fleetState
	var done func()
	for {
		switch subscribed := s.events.hasSubscribers(); {
		case subscribed && done == nil:
			done = s.Fleet.Interest()
		case !subscribed && done != nil:
			done()
			// A later subscriber gets the list as it is then.
			last, done = fleetState{}, nil
		}
		if done != nil {
			last = s.lookAtFleet(last)
		}
		select {
		case <-s.Clock.After(fleetLook):
		case <-ctx.Done():
			if done != nil {
				done()
			}
			return
		}
	}
}

// fleetState is what was emitted last; the zero value is nothing.
type fleetState struct {
	known  bool
	absent bool
	rows   []sandboxRow
}

func (s *Shim) lookAtFleet(last fleetState) fleetState {
	now, ok := s.fleetState()
	if !ok || last.known && now.absent == last.absent && slices.EqualFunc(now.rows, last.rows, equalButAge) {
		return last
	}
	s.events.emit(event{Kind: eventFleet, fleetEvent: &fleetEvent{DaemonAbsent: now.absent, Sandboxes: now.rows}})
	return now
}

// fleetState reads the last reading. A failure that may pass says nothing.
func (s *Shim) fleetState() (state fleetState, ok bool) {
	snapshot := s.Fleet.Snapshot()
	switch {
	case snapshot.Err != nil && !snapshot.Available && sandbox.IsUnavailable(snapshot.Err):
		return fleetState{known: true, absent: true, rows: []sandboxRow{}}, true
	case snapshot.Err != nil, snapshot.Time.IsZero():
		return fleetState{}, false
	}
	return fleetState{known: true, rows: s.sandboxRows(snapshot)}, true
}

func (s *Shim) sandboxRows(snapshot fleet.Snapshot) []sandboxRow {
	rows := make([]sandboxRow, 0, len(snapshot.All))
	for _, info := range snapshot.All {
		row := sandboxRow{
			Reference: s.sandboxReference(info.ID), Image: info.Image, Stopped: info.Stopped,
			AgeSecs: int64(info.Age / time.Second), ExecInFlight: info.ExecInFlight,
		}
		if s.OpenCapabilities {
			row.SandboxID = info.ID.Reveal()
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b sandboxRow) int { return cmp.Compare(a.Reference, b.Reference) })
	return rows
}

func equalButAge(a, b sandboxRow) bool {
	a.AgeSecs, b.AgeSecs = 0, 0
	return a == b
}

// sandboxReference is keyed, because a daemon may number its sandboxes.
func (s *Shim) sandboxReference(id sandbox.ID) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id.Reveal()))
	return "sbx-" + lowerBase32.EncodeToString(mac.Sum(nil))[:referenceDigits]
}
