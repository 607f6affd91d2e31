package sandboxrun

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/shim"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestTimeLeft(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ended := func(ago time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(now.Add(-ago))) }
	for name, tc := range map[string]struct {
		ttl   *int32
		ended *metav1.Time
		left  time.Duration
		ends  bool
	}{
		"no time to live keeps it":          {ended: ended(time.Hour)},
		"a run that has not ended stays":    {ttl: ptr.To[int32](1)},
		"some is left":                      {ttl: ptr.To[int32](60), ended: ended(20 * time.Second), left: 40 * time.Second, ends: true},
		"zero seconds end at once":          {ttl: ptr.To[int32](0), ended: ended(0), ends: true},
		"what is overdue has negative time": {ttl: ptr.To[int32](1), ended: ended(3 * time.Second), left: -2 * time.Second, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			left, ends := timeLeft(&sandboxv1alpha1.SandboxRun{
				Spec:   sandboxv1alpha1.SandboxRunSpec{TTLSecondsAfterFinished: tc.ttl},
				Status: sandboxv1alpha1.SandboxRunStatus{CompletionTime: tc.ended},
			}, now)
			if left != tc.left || ends != tc.ends {
				t.Errorf("got %s, %t; want %s, %t", left, ends, tc.left, tc.ends)
			}
		})
	}
}

func TestTail(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		limit int
		want  string
		cut   bool
	}{
		"what fits stays":                         {"abc", 3, "abc", false},
		"the end is kept":                         {"abcd", 3, "bcd", true},
		"a character is not split":                {"aäb", 2, "b", true},
		"a whole character at the border is kept": {"aäb", 3, "äb", true},
		"broken text is mended":                   {"a\xffb", 5, "a\uFFFDb", false},
		"mending counts":                          {"\xff\xfe\xffa", 3, "a", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, cut := tail(tc.text, tc.limit)
			if got != tc.want || cut != tc.cut {
				t.Errorf("got %q, %t; want %q, %t", got, cut, tc.want, tc.cut)
			}
			if len(got) > tc.limit || !utf8.ValidString(got) {
				t.Errorf("%q breaks the bound or is no text", got)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		result result
		want   string
	}{
		"a failure tells its own reason": {result{run: &wire.Run{}, failure: &failure{reason: "Why"}}, "Why"},
		"no account is a failure":        {result{}, sandboxv1alpha1.SandboxRunSandboxFailedReason},
		"zero is complete":               {result{run: &wire.Run{}}, sandboxv1alpha1.SandboxRunCompletedReason},
		"another code is not":            {result{run: &wire.Run{ExitCode: 3}}, sandboxv1alpha1.SandboxRunExitCodeReason},
		"a signal is not":                {result{run: &wire.Run{ExitCode: 137, Signal: "SIGKILL"}}, sandboxv1alpha1.SandboxRunExitCodeReason},
	} {
		t.Run(name, func(t *testing.T) {
			if got, message := verdict(tc.result); got != tc.want || (message == "" && tc.result.failure == nil) {
				t.Errorf("got %s: %q", got, message)
			}
		})
	}
}

func TestResult_toOutcome(t *testing.T) {
	run := &wire.Run{Stdout: "out", Stderr: "err", StdoutTruncated: true, ExitCode: -1, TimedOut: true}
	for name, tc := range map[string]struct {
		result result
		want   shim.Outcome
	}{
		"a success is whole": {
			result{run: &wire.Run{Stdout: "x"}, value: json.RawMessage("1"), took: time.Second},
			shim.Outcome{Stdout: "x", Success: true, Result: json.RawMessage("1"), Duration: time.Second},
		},
		"a timeout tells what was printed": {
			result{run: run, failure: &failure{reason: sandboxv1alpha1.SandboxRunTimeoutReason, message: "late"}},
			shim.Outcome{
				Stdout: "out", Stderr: "err", TruncatedStdout: true, ExitCode: -1,
				Failure: &shim.Failure{Code: shim.FailureTimeout, Message: "late", PartialStdout: "out", PartialStderr: "err"},
			},
		},
		"a lost sandbox is gone": {
			result{failure: &failure{reason: sandboxv1alpha1.SandboxRunSandboxFailedReason, lost: true}},
			shim.Outcome{ExitCode: -1, Failure: &shim.Failure{Code: shim.FailureGone}},
		},
		"no room is capacity": {
			result{failure: &failure{reason: sandboxv1alpha1.CapacityReason}},
			shim.Outcome{ExitCode: -1, Failure: &shim.Failure{Code: shim.FailureCapacity}},
		},
		"a cancellation is one": {
			result{failure: cancelled()},
			shim.Outcome{ExitCode: -1, Failure: &shim.Failure{Code: shim.FailureCancelled, Message: "the run was cancelled"}},
		},
		"anything else is the engine's": {
			result{failure: &failure{reason: sandboxv1alpha1.SandboxRunInterruptedReason}},
			shim.Outcome{ExitCode: -1, Failure: &shim.Failure{Code: shim.FailureEngine}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.result.toOutcome()); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSwitchedOff(t *testing.T) {
	stalled := func(generation int64) []metav1.Condition {
		return []metav1.Condition{{
			Type: sandboxv1alpha1.StalledCondition, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		}}
	}
	for name, tc := range map[string]struct {
		change func(*sandboxv1alpha1.SandboxRuntime)
		want   string
	}{
		"one that serves":         {func(*sandboxv1alpha1.SandboxRuntime) {}, ""},
		"a deleted one":           {func(r *sandboxv1alpha1.SandboxRuntime) { r.DeletionTimestamp = ptr.To(metav1.Now()) }, "is being deleted"},
		"a suspended one":         {func(r *sandboxv1alpha1.SandboxRuntime) { r.Spec.Suspend = true }, "is suspended"},
		"one without replicas":    {func(r *sandboxv1alpha1.SandboxRuntime) { r.Spec.Replicas = ptr.To[int32](0) }, "is scaled to zero"},
		"a stalled one":           {func(r *sandboxv1alpha1.SandboxRuntime) { r.Status.Conditions = stalled(2) }, "is stalled"},
		"one that stalled before": {func(r *sandboxv1alpha1.SandboxRuntime) { r.Status.Conditions = stalled(1) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			runtime := &sandboxv1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			tc.change(runtime)
			if got := switchedOff(runtime); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
