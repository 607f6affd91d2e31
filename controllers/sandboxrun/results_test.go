package sandboxrun

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/shim"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestResults_offersCountTheirCallers(t *testing.T) {
	r := NewResults(testingclock.NewFakeClock(time.Now()))
	code := []byte("print(1)")
	first, second := r.Offer("digest", code), r.Offer("digest", code)
	code[0] = 'X'
	first()
	first()
	got, ok := r.code("digest")
	if !ok || string(got) != "print(1)" {
		t.Errorf("after one of two went: got %q, %t", got, ok)
	}
	second()
	if _, ok := r.code("digest"); ok {
		t.Error("the code outlived its last caller")
	}
	if len(r.offers) != 0 {
		t.Errorf("%d offers leaked", len(r.offers))
	}
}

// awaiting starts a caller and returns once it waits.
func awaiting(t *testing.T, r *Results, uid types.UID) <-chan shim.Outcome {
	t.Helper()
	outcomes := make(chan shim.Outcome, 1)
	go func() {
		outcome, err := r.Await(t.Context(), uid)
		if err != nil {
			outcome = shim.Outcome{Stderr: err.Error()}
		}
		outcomes <- outcome
	}()
	limit := time.After(10 * time.Second)
	for waits := 0; waits == 0; {
		r.mu.Lock()
		if p, ok := r.outcomes[uid]; ok {
			waits = p.waiting
		}
		r.mu.Unlock()
		select {
		case <-limit:
			t.Fatal("nobody waits")
		case <-time.After(time.Millisecond):
		}
	}
	return outcomes
}

func TestResults_awaitBeforeAndAfterTheEnd(t *testing.T) {
	r := NewResults(testingclock.NewFakeClock(time.Now()))
	early := awaiting(t, r, "early")
	r.deliver("early", shim.Outcome{Stdout: "first"})
	r.deliver("early", shim.Outcome{Stdout: "second"})
	if got := <-early; got.Stdout != "first" {
		t.Errorf("early caller: got %+v", got)
	}
	r.deliver("late", shim.Outcome{Stdout: "kept"})
	if got, err := r.Await(t.Context(), "late"); err != nil || got.Stdout != "kept" {
		t.Errorf("late caller: got %+v, %v", got, err)
	}
}

func TestResults_dropTellsOnlyThoseWhoWait(t *testing.T) {
	r := NewResults(testingclock.NewFakeClock(time.Now()))
	waits := awaiting(t, r, "run")
	r.drop("run")
	want := &shim.Failure{Code: shim.FailureCancelled, Message: "the run was deleted before it ended"}
	if diff := cmp.Diff(want, (<-waits).Failure); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	r.drop("unknown")
	waitFor(t, r, 0)
}

func TestResults_aCallerMayGiveUp(t *testing.T) {
	r := NewResults(testingclock.NewFakeClock(time.Now()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Await(ctx, "run"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	waitFor(t, r, 0)
}

func TestResults_unclaimedOutcomesArePruned(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Now())
	r := NewResults(clk)
	r.deliver("old", shim.Outcome{})
	clk.Step(resultTTL)
	r.deliver("edge", shim.Outcome{})
	waitFor(t, r, 2)
	clk.Step(time.Millisecond)
	r.deliver("new", shim.Outcome{})
	if _, ok := r.outcomes["old"]; ok || len(r.outcomes) != 2 {
		t.Errorf("left %v", r.outcomes)
	}
}

// waitFor checks how many places are taken, once their callers have left.
func waitFor(t *testing.T, r *Results, want int) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		r.mu.Lock()
		got := len(r.outcomes)
		r.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-limit:
			t.Fatalf("%d outcomes, want %d", got, want)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestResult_failures(t *testing.T) {
	printed := func(change func(*wire.Run)) *wire.Run {
		run := &wire.Run{Stdout: "out", Stderr: "err", ExitCode: 137, Signal: "SIGKILL"}
		change(run)
		return run
	}
	cases := map[string]struct {
		res  result
		want shim.FailureCode
	}{
		"a program that kills itself is a response": {result{run: printed(func(*wire.Run) {})}, ""},
		"one that the kernel killed for its memory is none": {
			result{run: printed(func(run *wire.Run) { run.OutOfMemory = true })}, shim.FailureExhausted},
		"a deadline": {result{
			run:     printed(func(run *wire.Run) { run.TimedOut = true }),
			failure: &failure{reason: sandboxv1alpha1.SandboxRunTimeoutReason},
		}, shim.FailureTimeout},
		"a full disk": {result{failure: &failure{
			reason: sandboxv1alpha1.SandboxRunSandboxFailedReason, message: "guest file /x: No space left on device",
		}}, shim.FailureExhausted},
		"a spec that cannot be": {result{failure: &failure{reason: sandboxv1alpha1.InvalidSpecReason}}, shim.FailureInvalid},
		"no place":              {result{failure: &failure{reason: sandboxv1alpha1.CapacityReason}}, shim.FailureCapacity},
		"a lost sandbox":        {result{failure: &failure{lost: true}}, shim.FailureGone},
		"anything else":         {result{failure: &failure{message: "S300"}}, shim.FailureEngine},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := tc.res.toOutcome()
			switch {
			case o.Failure == nil && tc.want != "", o.Failure != nil && o.Failure.Code != tc.want:
				t.Errorf("failure %+v, want %q", o.Failure, tc.want)
			case o.Failure != nil && tc.res.run != nil && o.Failure.PartialStdout+o.Failure.PartialStderr != "outerr":
				t.Errorf("failure %+v lacks what the program printed", o.Failure)
			case o.Failure == nil && o.ExitCode != 137:
				t.Errorf("exit code %d", o.ExitCode)
			}
		})
	}
}
