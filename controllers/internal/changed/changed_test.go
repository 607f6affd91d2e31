package changed_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/changed"
)

func TestByOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*sandboxv1alpha1.SandboxRuntime)
		want   bool
	}{
		"the spec":              {func(r *sandboxv1alpha1.SandboxRuntime) { r.Generation++ }, true},
		"a request by notation": {func(r *sandboxv1alpha1.SandboxRuntime) { r.Annotations = map[string]string{"a": "b"} }, true},
		"our own finalizer":     {func(r *sandboxv1alpha1.SandboxRuntime) { r.Finalizers = []string{"f"} }, true},
		"the deletion":          {func(r *sandboxv1alpha1.SandboxRuntime) { r.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
		"a count in the status": {func(r *sandboxv1alpha1.SandboxRuntime) { r.Status.Functions++ }, false},
		"what Ready says": {func(r *sandboxv1alpha1.SandboxRuntime) {
			r.Status.Conditions = []metav1.Condition{{Type: sandboxv1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "DaemonUnavailable"}}
		}, true},
		"another condition": {func(r *sandboxv1alpha1.SandboxRuntime) {
			r.Status.Conditions = []metav1.Condition{{Type: sandboxv1alpha1.ReconcilingCondition, Status: metav1.ConditionTrue, Reason: "Booting"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &sandboxv1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			after := before.DeepCopy()
			tc.change(after)
			if got := changed.ByOthers().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
