package shim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// list is a reading of the daemon's list.
func list(at time.Time, rows ...sandbox.Info) fleet.Snapshot {
	return fleet.Snapshot{Time: at, Available: true, All: rows}
}

func TestFleetEvents(t *testing.T) {
	row := func(id string, change ...func(*sandbox.Info)) sandbox.Info {
		info := sandbox.Info{ID: sandbox.NewID(id), Image: "node", Age: time.Second}
		for _, c := range change {
			c(&info)
		}
		return info
	}
	older := func(i *sandbox.Info) { i.Age += time.Minute }
	busy := func(i *sandbox.Info) { i.ExecInFlight = 1 }
	stopped := func(i *sandbox.Info) { i.Stopped = true }
	now := time.Unix(1_790_000_000, 0)
	absent := fleet.Snapshot{Time: now, Err: sandbox.NewUnavailableError(errors.New("function_not_found"))}
	transient := list(now, row("sb-1"))
	transient.Err = errors.New("timed out")
	w := newWorld(t)
	w.subscribe("a::f")
	var last fleetState
	for _, step := range []struct {
		name string
		now  fleet.Snapshot
		// want is what an event says, empty for none.
		want string
	}{
		{"nothing was read yet", fleet.Snapshot{}, ""},
		{"the first reading", list(now, row("sb-1")), "false 1"},
		{"the same again", list(now, row("sb-1")), ""},
		{"older", list(now, row("sb-1", older)), ""},
		{"another", list(now, row("sb-1"), row("sb-2")), "false 2"},
		{"in another order", list(now, row("sb-2"), row("sb-1")), ""},
		{"busy", list(now, row("sb-2", busy, older), row("sb-1")), "false 2"},
		{"stopped", list(now, row("sb-2", stopped), row("sb-1")), "false 2"},
		{"a hiccup", transient, ""},
		{"gone", list(now, row("sb-1")), "false 1"},
		{"the daemon is absent", absent, "true 0"},
		{"still absent", absent, ""},
		{"back with the same", list(now, row("sb-1")), "false 1"},
		{"back with none", list(now), "false 0"},
	} {
		before := len(w.told("a::f"))
		w.fleet.set(step.now)
		emitted := w.shim.events.sequence
		last = w.shim.lookAtFleet(last)
		if step.want == "" {
			if w.shim.events.sequence != emitted {
				t.Errorf("%s: an event", step.name)
			}
			continue
		}
		eventually(t, step.name, func() bool { return len(w.told("a::f")) > before })
		e := w.told("a::f")[before]
		if got := fmt.Sprint(e["daemon_absent"], " ", len(e["sandboxes"].([]any))); got != step.want || e["kind"] != "fleet" {
			t.Errorf("%s: %v, want %s", step.name, e, step.want)
		}
	}
	for _, call := range w.bus.sent {
		if strings.Contains(string(call.Data), "sb-1") {
			t.Errorf("event %s shows a sandbox id", call.Data)
		}
	}
}

func TestFleetEvents_rows(t *testing.T) {
	for name, open := range map[string]bool{"references": false, "ids": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.OpenCapabilities = open })
			info := sandbox.Info{ID: sandbox.NewID("sb-1"), Image: "python", Age: 90 * time.Second, ExecInFlight: 2, Stopped: true}
			want := sandboxRow{
				Reference: w.shim.sandboxReference(info.ID), Image: "python", Stopped: true, AgeSecs: 90, ExecInFlight: 2,
			}
			if open {
				want.SandboxID = "sb-1"
			}
			if diff := cmp.Diff([]sandboxRow{want}, w.shim.sandboxRows(list(time.Now(), info))); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if other := newWorld(t).shim.sandboxReference(info.ID); other == want.Reference {
				t.Error("two processes give one reference, which could be guessed from ids")
			}
		})
	}
}

// TestWatchFleet: the daemon is asked often only for somebody who listens.
func TestWatchFleet(t *testing.T) {
	w := newWorld(t)
	w.fleet.set(list(time.Now()))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.shim.watchFleet(ctx)
	}()
	tick := func() {
		t.Helper()
		eventually(t, "the pause", w.clock.HasWaiters)
		w.clock.Step(fleetLook)
	}
	interest := func() int {
		w.fleet.mu.Lock()
		defer w.fleet.mu.Unlock()
		return w.fleet.interested
	}
	tick()
	if interest() != 0 {
		t.Error("interested without a subscriber")
	}
	binding := w.subscribe("a::f")
	tick()
	w.wantKinds("a::f", "fleet")
	w.bus.types[0].Unregister(binding)
	tick()
	eventually(t, "the end of the interest", func() bool { return interest() == 0 })
	w.subscribe("a::g")
	tick()
	w.wantKinds("a::g", "fleet")
	stop()
	<-ended
	if interest() != 0 {
		t.Error("interested after the end")
	}
}
