package sandboxfunction

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

func TestIsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		reason          string
		answers, serves bool
		want            bool
	}{
		"the daemon answers and a sandbox is there": {sandboxv1alpha1.DaemonUnavailableReason, true, true, true},
		"the daemon is away":                        {sandboxv1alpha1.DaemonUnavailableReason, false, true, false},
		"no sandbox is known":                       {sandboxv1alpha1.DaemonUnavailableReason, true, false, false},
		"it was another trouble":                    {sandboxv1alpha1.SandboxRuntimeImageRejectedReason, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			runtime := &sandboxv1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			for _, kind := range []string{sandboxv1alpha1.ReadyCondition, sandboxv1alpha1.StalledCondition} {
				runtime.Status.Conditions = append(runtime.Status.Conditions, metav1.Condition{
					Type: kind, Status: metav1.ConditionTrue, Reason: tc.reason, ObservedGeneration: 1,
				})
			}
			named := publish.Runtime{Name: "shop"}
			table := publish.NewTable(clock.RealClock{}, publish.Hooks{})
			if tc.serves {
				table.SetInstance(named, publish.Instance{Name: "0", ID: sandbox.NewID("box"), Slots: 1})
			}
			r := New(Options{Table: table, DaemonAnswers: func() bool { return tc.answers }})
			if got := r.isBack(&scope{runtime: named}, runtime); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
