package main

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

func ready(status metav1.ConditionStatus, generation int64) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: status, ObservedGeneration: generation, Reason: "Why"}}
}

// atRest is a reading with nothing wrong.
func atRest() reading {
	sum := sha256.Sum256([]byte("nonce"))
	f := v1alpha1.SandboxFunction{ObjectMeta: metav1.ObjectMeta{Name: "f", Generation: 2}}
	f.Spec.FunctionID = "mixed::first"
	f.Status.ObservedGeneration, f.Status.Conditions = 2, ready(metav1.ConditionTrue, 2)
	r := v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "uid"}}
	r.Status.Conditions, r.Status.ReadyReplicas = ready(metav1.ConditionTrue, 0), 1
	r.Status.Instances = []v1alpha1.InstanceStatus{{Name: "i0", State: v1alpha1.InstanceReady, Digest: hex.EncodeToString(sum[:])}}
	n := v1alpha1.SandboxRun{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	n.Status.Phase = v1alpha1.RunSucceeded
	return reading{
		functions: []v1alpha1.SandboxFunction{f}, runtimes: []v1alpha1.SandboxRuntime{r}, runs: []v1alpha1.SandboxRun{n},
		sandboxes: []sandboxRow{{ID: "1", Name: marker("uid", "nonce")}}, published: []string{"mixed::first"},
	}
}

func marker(object, nonce string) string {
	return sandbox.Marker{Operator: "o", Object: object, Nonce: nonce}.String()
}

func TestDisagreements(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*reading)
		want  string
	}{
		"nothing": {func(*reading) {}, ""},
		"a function that is not Ready": {func(r *reading) {
			r.functions[0].Status.Conditions = ready(metav1.ConditionFalse, 2)
		}, "function f: Ready is False"},
		"a function whose newest spec nobody has seen": {func(r *reading) { r.functions[0].Generation = 3 }, "function f"},
		"a runtime without conditions":                 {func(r *reading) { r.runtimes[0].Status.Conditions = nil }, "no Ready condition"},
		"a run that goes on":                           {func(r *reading) { r.runs[0].Status.Phase = v1alpha1.RunRunning }, "run n"},
		"a wrong count":                                {func(r *reading) { r.runtimes[0].Status.ReadyReplicas = 2 }, "readyReplicas is 2"},
		"an instance that boots": {func(r *reading) {
			r.runtimes[0].Status.Instances[0].State = v1alpha1.InstanceBooting
		}, "readyReplicas is 1 with 1 instances, 0 of them ready"},
		"no sandbox":                {func(r *reading) { r.sandboxes = nil }, "i0 has no sandbox"},
		"a twin":                    {func(r *reading) { r.sandboxes = append(r.sandboxes, r.sandboxes[0]) }, "has 2 sandboxes"},
		"one of another attempt":    {func(r *reading) { r.sandboxes[0].Name = marker("uid", "other") }, "no attempt of an object"},
		"one of no object":          {func(r *reading) { r.sandboxes = append(r.sandboxes, sandboxRow{Name: marker("gone", "nonce")}) }, "no attempt"},
		"a stranger":                {func(r *reading) { r.sandboxes = append(r.sandboxes, sandboxRow{Name: strangerName}) }, "strangers"},
		"a function not on the bus": {func(r *reading) { r.published = nil }, "mixed::first is not on the bus"},
		"one without an object":     {func(r *reading) { r.published = append(r.published, "mixed::other") }, "mixed::other is on the bus without"},
	} {
		t.Run(name, func(t *testing.T) {
			r := atRest()
			tc.spoil(&r)
			got := strings.Join(disagreements(r), "; ")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("said %q, want %q in it", got, tc.want)
			}
		})
	}
}

func TestFalseRun(t *testing.T) {
	run := func(phase v1alpha1.RunPhase, reason, stdout string) *v1alpha1.SandboxRun {
		r := newRun(1)
		r.Status.Phase, r.Status.Stdout = phase, stdout
		if reason != "" {
			r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.SandboxRunFailedCondition, Reason: reason}}
		}
		return r
	}
	for name, tc := range map[string]struct {
		run        *v1alpha1.SandboxRun
		executions int
		honest     bool
	}{
		"succeeded once":            {run(v1alpha1.RunSucceeded, "", "tkn-run-1"), 1, true},
		"succeeded and never ran":   {run(v1alpha1.RunSucceeded, "", "tkn-run-1"), 0, false},
		"another run's output":      {run(v1alpha1.RunSucceeded, "", "tkn-run-2"), 1, false},
		"interrupted while it ran":  {run(v1alpha1.RunFailed, v1alpha1.SandboxRunInterruptedReason, ""), 1, true},
		"interrupted before it ran": {run(v1alpha1.RunFailed, v1alpha1.SandboxRunInterruptedReason, ""), 0, true},
		"blamed on the program":     {run(v1alpha1.RunFailed, v1alpha1.SandboxRunExitCodeReason, ""), 1, false},
		"failed without any reason": {run(v1alpha1.RunFailed, "", ""), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			problem := falseRun(tc.run, func(string) int { return tc.executions })
			if (problem == "") != tc.honest {
				t.Errorf("said %q", problem)
			}
		})
	}
}

func TestPulse(t *testing.T) {
	p := pulse{answered: []int{2, 1, 0, 0}, failed: []int{0, 1, 1, 0}}
	if got, want := p.String(), "#+- "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
