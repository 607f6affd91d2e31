package sandboxfunction

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

func TestGraceOf(t *testing.T) {
	told := func(status metav1.ConditionStatus, generation int64) *metav1.Condition {
		return &metav1.Condition{Status: status, ObservedGeneration: generation}
	}
	for name, tc := range map[string]struct {
		told *metav1.Condition
		want time.Duration
	}{
		"a new object is given time":                 {nil, progressGrace},
		"a Ready one too, as after a restart":        {told(metav1.ConditionTrue, 2), progressGrace},
		"progress keeps its words for a while":       {told(metav1.ConditionUnknown, 2), progressRefresh},
		"the end of a failure is told at once":       {told(metav1.ConditionFalse, 2), 0},
		"the beginning of an edit too":               {told(metav1.ConditionTrue, 1), 0},
		"and that of an edit that comes during work": {told(metav1.ConditionUnknown, 1), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := graceOf(tc.told, 2); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestReconciler_untold(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r := &Reconciler{Options: Options{Clock: clock}}
	known := &functionMemory{}
	look := func(state conditions.State) (untold bool, again time.Duration) {
		sc := &scope{obj: &sandboxv1alpha1.SandboxFunction{}, known: known}
		return r.untold(sc, conditions.Outcome{State: state}), sc.requeue
	}
	if untold, again := look(conditions.Progressing); !untold || again != progressGrace {
		t.Errorf("at first: untold %t, looked at again in %s", untold, again)
	}
	clock.Step(progressGrace - time.Second)
	if untold, again := look(conditions.Progressing); !untold || again != time.Second {
		t.Errorf("later: untold %t, looked at again in %s", untold, again)
	}
	if untold, _ := look(conditions.Waiting); untold {
		t.Error("what a function waits for is not told")
	}
	if untold, _ := look(conditions.Progressing); !untold {
		t.Error("the time does not begin anew after a word")
	}
	clock.Step(progressGrace)
	if untold, again := look(conditions.Progressing); untold || again != 0 {
		t.Errorf("at the end: untold %t, looked at again in %s", untold, again)
	}
}
