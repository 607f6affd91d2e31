package prepare_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// slowGuest takes its time for every program, and is ended at its limit.
type slowGuest struct {
	takes  time.Duration
	limits []time.Duration
	// daemonEnds says that the daemon ends it, since the agent does not.
	daemonEnds bool
}

func (g *slowGuest) WriteFile(_ context.Context, _ sandbox.ID, req sandbox.WriteFileRequest) error {
	_, err := io.Copy(io.Discard, req.Content)
	return err
}

func (g *slowGuest) Install(_ context.Context, _ sandbox.ID, req wire.InstallRequest) (wire.Reply, error) {
	return g.program(req.TimeoutMs)
}

func (g *slowGuest) Setup(_ context.Context, _ sandbox.ID, req wire.SetupRequest) (wire.Reply, error) {
	return g.program(req.TimeoutMs)
}

func (g *slowGuest) program(milliseconds int64) (wire.Reply, error) {
	limit := time.Duration(milliseconds) * time.Millisecond
	g.limits = append(g.limits, limit)
	<-time.After(min(limit, g.takes))
	switch {
	case g.takes <= limit:
		return wire.Reply{Run: &wire.Run{}}, nil
	case g.daemonEnds:
		return wire.Reply{}, sandbox.NewTimeoutError(limit)
	default:
		return wire.Reply{Run: &wire.Run{TimedOut: true, ExitCode: -1}}, nil
	}
}

func TestPrepare_isBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		guest slowGuest
		want  []time.Duration
		step  prepare.Step
	}{
		"one step": {slowGuest{takes: time.Hour}, []time.Duration{290 * time.Second}, prepare.StepPackages},
		"one that the agent does not end": {
			slowGuest{takes: time.Hour, daemonEnds: true}, []time.Duration{290 * time.Second}, prepare.StepPackages,
		},
		"all steps together": {
			slowGuest{takes: 280 * time.Second},
			[]time.Duration{290 * time.Second, 290 * time.Second, 35 * time.Second}, prepare.StepSetup,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan := prepare.Plan{Packages: []string{"a"}, Setup: []string{"1", "2", "3"}}
				err := prepare.Prepare(t.Context(), &tc.guest, &tc.guest, sandbox.NewID("box"), plan)
				unfit := prepare.AsError(err)
				if unfit == nil || unfit.Step != tc.step || !strings.Contains(err.Error(), "did not end in time") {
					t.Errorf("error is %v", err)
				}
				if diff := cmp.Diff(tc.want, tc.guest.limits); diff != "" {
					t.Errorf("limits (-want +got):\n%s", diff)
				}
			})
		})
	}
}
