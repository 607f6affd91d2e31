package main

import (
	"context"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/chaos/plan"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

type m = map[string]any

// sandboxRow is one sandbox in the daemon's list (contracts/iii-sandbox.md §3.5).
type sandboxRow struct {
	ID      string `json:"sandbox_id"`
	Name    string `json:"name"`
	Stopped bool   `json:"stopped"`
}

// shortCall bounds a call that takes no time where all is well.
const shortCall = 10 * time.Second

func (w *world) listSandboxes(ctx context.Context) ([]sandboxRow, error) {
	type response struct {
		Sandboxes []sandboxRow `json:"sandboxes"`
	}
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	answer, err := bus.Invoke[response](ctx, w.caller, "sandbox::list", m{})
	return answer.Sandboxes, err
}

func (w *world) stopSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	_, err := bus.Invoke[m](ctx, w.caller, "sandbox::stop", m{"sandbox_id": id})
	return err
}

// steal stops one of the operator's sandboxes, if there is one.
func (w *world) steal(ctx context.Context, chance func() float64) {
	rows, err := w.listSandboxes(ctx)
	if err != nil {
		return // nothing to steal
	}
	var theirs []string
	for _, row := range rows {
		if _, err := sandbox.ParseMarker(row.Name); err == nil {
			theirs = append(theirs, row.ID)
		}
	}
	if len(theirs) > 0 {
		_ = w.stopSandbox(ctx, theirs[int(chance()*float64(len(theirs)))])
	}
}

// strangerName is that of the sandboxes that fill the daemon.
const strangerName = "stranger"

// fill takes places until the daemon has none, and gives them back.
func (w *world) fill(ctx context.Context, f plan.Fault) {
	began := time.Now()
	for time.Since(began) < f.For && w.makeStranger(ctx) == nil {
	}
	wait(ctx, f.For-time.Since(began))
	w.removeStrangers(ctx)
}

func (w *world) makeStranger(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	_, err := bus.Invoke[m](ctx, w.caller, "sandbox::create", m{"image": "python", "name": strangerName})
	return err
}

// removeStrangers is also called after the storm, since the daemon may be away now.
func (w *world) removeStrangers(ctx context.Context) {
	rows, _ := w.listSandboxes(ctx)
	for _, row := range rows {
		if row.Name == strangerName {
			_ = w.stopSandbox(ctx, row.ID)
		}
	}
}
