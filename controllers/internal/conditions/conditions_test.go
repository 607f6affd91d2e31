package conditions_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// shown is one condition without its time.
type shown struct {
	Status     metav1.ConditionStatus
	Reason     string
	Message    string
	Generation int64
}

func show(obj conditions.Object) map[string]shown {
	all := map[string]shown{}
	for _, c := range obj.GetConditions() {
		all[c.Type] = shown{c.Status, c.Reason, c.Message, c.ObservedGeneration}
	}
	return all
}

func object(generation int64) *sandboxv1alpha1.SandboxRuntime {
	obj := &sandboxv1alpha1.SandboxRuntime{}
	obj.Generation = generation
	return obj
}

func TestSummarize(t *testing.T) {
	const ready, reconciling, stalled = sandboxv1alpha1.ReadyCondition,
		sandboxv1alpha1.ReconcilingCondition, sandboxv1alpha1.StalledCondition
	for name, tc := range map[string]struct {
		state conditions.State
		want  map[string]shown
		// wantHandled says that the observed generation moves to this one.
		wantHandled bool
	}{
		"ready has nothing abnormal": {conditions.Ready, map[string]shown{
			ready: {metav1.ConditionTrue, "Why", "because", 2},
		}, true},
		"stalled is handled and does not reconcile": {conditions.Stalled, map[string]shown{
			ready: {metav1.ConditionFalse, "Why", "because", 2}, stalled: {metav1.ConditionTrue, "Why", "because", 2},
		}, true},
		"waiting reconciles": {conditions.Waiting, map[string]shown{
			ready: {metav1.ConditionFalse, "Why", "because", 2}, reconciling: {metav1.ConditionTrue, "Why", "because", 2},
		}, false},
		"progressing does not know yet": {conditions.Progressing, map[string]shown{
			ready: {metav1.ConditionUnknown, "Why", "because", 2}, reconciling: {metav1.ConditionTrue, "Why", "because", 2},
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			// Whatever was true of the last generation is gone.
			for _, former := range []conditions.State{conditions.Ready, conditions.Stalled, conditions.Waiting, conditions.Progressing} {
				obj := object(1)
				conditions.Summarize(obj, conditions.Outcome{State: former, Reason: "Former", Message: "was"})
				obj.Status.ObservedGeneration, obj.Generation = 1, 2
				conditions.Summarize(obj, conditions.Outcome{State: tc.state, Reason: "Why", Message: "because"})
				if diff := cmp.Diff(tc.want, show(obj)); diff != "" {
					t.Errorf("after state %d (-want +got):\n%s", former, diff)
				}
				if handled := obj.Status.ObservedGeneration == 2; handled != tc.wantHandled {
					t.Errorf("generation 2 handled: %t, want %t", handled, tc.wantHandled)
				}
			}
		})
	}
}

func TestSummarize_endsTheStateOfANewObject(t *testing.T) {
	for state, want := range map[conditions.State]int64{
		conditions.Progressing: 0, conditions.Waiting: 0, conditions.Stalled: 1, conditions.Ready: 1,
	} {
		obj := object(1)
		obj.Status.ObservedGeneration = -1
		conditions.Summarize(obj, conditions.Outcome{State: state, Reason: "Why", Message: "because"})
		if got := obj.Status.ObservedGeneration; got != want {
			t.Errorf("state %d: observed generation %d, want %d", state, got, want)
		}
	}
}

func TestSet_transitionTimeMovesWithTheStatusOnly(t *testing.T) {
	obj, long := object(1), time.Now().Add(-time.Hour).Truncate(time.Second)
	conditions.Set(obj, "Booted", metav1.ConditionTrue, "A", "a")
	obj.Status.Conditions[0].LastTransitionTime = metav1.NewTime(long)
	conditions.Set(obj, "Booted", metav1.ConditionTrue, "B", "b")
	if got := conditions.Find(obj, "Booted"); !got.LastTransitionTime.Time.Equal(long) || got.Reason != "B" {
		t.Errorf("a new reason gave %+v", got)
	}
	conditions.Set(obj, "Booted", metav1.ConditionFalse, "B", "b")
	if got := conditions.Find(obj, "Booted"); !got.LastTransitionTime.After(long) {
		t.Errorf("a new status kept the time: %+v", got)
	}
	conditions.Delete(obj, "Booted")
	if conditions.Find(obj, "Booted") != nil {
		t.Error("the condition is still there")
	}
}

func TestIsTrue_speaksOfThisGeneration(t *testing.T) {
	obj := object(1)
	conditions.Set(obj, "Ready", metav1.ConditionTrue, "A", "a")
	if !conditions.IsTrue(obj, "Ready") || conditions.IsTrue(obj, "Other") {
		t.Error("a condition of this generation is not true")
	}
	obj.Generation = 2
	if conditions.IsTrue(obj, "Ready") {
		t.Error("a condition of the last generation is true")
	}
}

func TestSet_cutsMessages(t *testing.T) {
	for name, message := range map[string]string{
		"of one-byte characters":   strings.Repeat("x", 5000),
		"of three-byte characters": strings.Repeat("€", 5000),
		"of odd parity":            "x" + strings.Repeat("é", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			obj := object(1)
			conditions.Set(obj, "Ready", metav1.ConditionTrue, "A", message)
			got := obj.Status.Conditions[0].Message
			if len(got) > 1024 || len(got) < 1020 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
				t.Errorf("%d bytes, valid %t, end %q", len(got), utf8.ValidString(got), got[len(got)-6:])
			}
		})
	}
	obj, whole := object(1), strings.Repeat("é", 512)
	conditions.Set(obj, "Ready", metav1.ConditionTrue, "A", whole)
	if got := obj.Status.Conditions[0].Message; got != whole {
		t.Errorf("a message of 1024 bytes was cut to %d", len(got))
	}
}
