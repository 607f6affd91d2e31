package sandboxrun

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/bus/shim"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

var kept = publish.Runtime{Namespace: "runs", Name: "kept", UID: "uid"}

// keptWorld is a reconciler with one sandbox that runs one program at a time, and
// a provider that answers like this.
func keptWorld(exec fake.ExecFunc) (*Reconciler, *fake.Provider) {
	provider := fake.New()
	provider.OnExec(exec)
	table := publish.NewTable(clock.RealClock{}, publish.Hooks{})
	table.SetConcurrency(kept, 1)
	table.SetInstance(kept, publish.Instance{Name: "0", ID: provider.Adopt("sandbox 0", "python"), Slots: 4})
	program := guest.AgentProgram{Bytes: []byte("agent"), Digest: strings.Repeat("a", 64)}
	return New(Options{
		Clock: clock.RealClock{}, Table: table, Runner: runner.New(provider, program), Provider: provider, Fleet: unreadFleet{},
	}), provider
}

type unreadFleet struct{}

func (unreadFleet) Snapshot() fleet.Snapshot { return fleet.Snapshot{} }
func (unreadFleet) Poke()                    {}

// attemptIn is a run of a bus caller in the kept runtime.
func attemptIn(timeout time.Duration) attempt {
	return attempt{
		runtime: &kept, timeout: timeout, accepted: time.Now(),
		request: wire.RunRequest{Language: wire.Python, Source: "1", TimeoutMs: timeout.Milliseconds(), Bus: wire.Bus{WorkerName: "w:run:1"}},
	}
}

func fails(err error) fake.ExecFunc {
	return func(context.Context, sandbox.Info, sandbox.ExecRequest) (sandbox.ExecResult, error) {
		return sandbox.ExecResult{}, err
	}
}

// B19: the wait behind another program has a limit of its own.
func TestInRuntime_waitForTheTurn(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout, want time.Duration
		patient       bool
	}{
		"a short run waits a little":         {timeout: 500 * time.Millisecond, want: minTurnWait},
		"a long run waits as long as it may": {timeout: 20 * time.Second, want: 20 * time.Second},
		"what kubectl made waits long":       {timeout: time.Second, want: time.Second + bootAllowance, patient: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, provider := keptWorld(fails(nil))
				other, err := r.Table.Acquire(t.Context(), kept, "")
				if err != nil {
					t.Fatal(err)
				}
				defer other.Release()
				a := attemptIn(tc.timeout)
				a.patient = tc.patient
				began := time.Now()
				res := r.execute(t.Context(), a)
				if took := time.Since(began); took != tc.want || len(provider.Calls(fake.Exec)) != 0 {
					t.Errorf("gave up after %s with %d programs, want %s", took, len(provider.Calls(fake.Exec)), tc.want)
				}
				code := shim.FailureCapacity
				if tc.patient {
					code = shim.FailureTimeout
				}
				if got := res.toOutcome().Failure; got == nil || got.Code != code {
					t.Errorf("failure %+v, want %s", got, code)
				}
			})
		})
	}
}

// The boot of a runtime that has no sandbox yet is no turn that is waited for.
func TestInRuntime_bootIsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := keptWorld(fails(sandbox.NewTimeoutError(time.Second)))
		instance := r.Table.Instances(kept)[0]
		r.Table.RemoveInstance(kept, instance.Name)
		go func() {
			<-time.After(10 * minTurnWait)
			r.Table.SetInstance(kept, instance)
		}()
		res := r.execute(t.Context(), attemptIn(time.Second))
		if res.failure == nil || res.failure.reason != sandboxv1alpha1.SandboxRunTimeoutReason {
			t.Errorf("failure %+v, want the program's own", res.failure)
		}
	})
}

// B15, I06: a refusal that lasts ends within the run's own limit.
func TestInRuntime_busyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, provider := keptWorld(fails(sandbox.NewBusyError()))
		began := time.Now()
		res := r.execute(t.Context(), attemptIn(2*time.Second))
		if took := time.Since(began); took != 2*time.Second || len(provider.Calls(fake.Exec)) < 2 {
			t.Errorf("gave up after %s and %d attempts", took, len(provider.Calls(fake.Exec)))
		}
		failure := res.toOutcome().Failure
		if failure == nil || failure.Code != shim.FailureEngine || !strings.Contains(failure.Message, "S003") {
			t.Errorf("failure %+v, want the engine's that names S003", failure)
		}
		if r.Table.Activity(kept).InFlight != 0 {
			t.Error("the slot is still taken")
		}
	})
}

// I07: only the loss of a sandbox that took programs is one.
func TestExplain_deadSandboxes(t *testing.T) {
	dead := sandbox.NewTransientError("S300", "boot failure")
	r, provider := keptWorld(fails(dead))
	for name, tc := range map[string]struct {
		attempt attempt
		code    shim.FailureCode
		text    string
	}{
		"in a kept one":          {attemptIn(time.Second), shim.FailureGone, ""},
		"one of its own is made": {attempt{timeout: time.Second, accepted: time.Now()}, shim.FailureEngine, "S300: boot failure"},
	} {
		provider.FailNext(fake.Create, dead)
		got := r.execute(t.Context(), tc.attempt).toOutcome().Failure
		if got == nil || got.Code != tc.code || !strings.Contains(got.Message, tc.text) {
			t.Errorf("%s: failure %+v, want %s with %q", name, got, tc.code, tc.text)
		}
	}
	if left := r.Table.Instances(kept); len(left) != 0 {
		t.Error("the dead sandbox takes programs")
	}
}
