package sandboxfunction

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

func TestServingChanged(t *testing.T) {
	ready := func(runtime *sandboxv1alpha1.SandboxRuntime, reason string) {
		conditions.Set(runtime, sandboxv1alpha1.ReadyCondition, metav1.ConditionTrue, reason, "")
	}
	for name, tc := range map[string]struct {
		change func(*sandboxv1alpha1.SandboxRuntime)
		wakes  bool
	}{
		"nothing":                          {func(*sandboxv1alpha1.SandboxRuntime) {}, false},
		"one function more":                {func(r *sandboxv1alpha1.SandboxRuntime) { r.Status.Functions++ }, false},
		"one sandbox more":                 {func(r *sandboxv1alpha1.SandboxRuntime) { r.Status.ReadyReplicas++ }, false},
		"another reason of Ready":          {func(r *sandboxv1alpha1.SandboxRuntime) { ready(r, "Idle") }, true},
		"another spec":                     {func(r *sandboxv1alpha1.SandboxRuntime) { r.Generation++ }, true},
		"its deletion":                     {func(r *sandboxv1alpha1.SandboxRuntime) { now := metav1.Now(); r.DeletionTimestamp = &now }, true},
		"it is a shared one now":           {func(r *sandboxv1alpha1.SandboxRuntime) { r.Labels = map[string]string{"a": "b"} }, true},
		"another object took its name":     {func(r *sandboxv1alpha1.SandboxRuntime) { r.UID = "another" }, true},
		"a write that says the same again": {func(r *sandboxv1alpha1.SandboxRuntime) { r.ResourceVersion = "2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &sandboxv1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{UID: "uid", Generation: 1}}
			ready(before, "Ready")
			after := before.DeepCopy()
			tc.change(after)
			if got := servingChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.wakes {
				t.Errorf("wakes its functions: %t, want %t", got, tc.wakes)
			}
		})
	}
}

func TestMemory_refusalsOfTriggers(t *testing.T) {
	m, key := newMemory(), types.NamespacedName{Namespace: "apps", Name: "price"}
	m.bindTrigger("t", key)
	if got, ok := m.refuse("t", "no"); !ok || got != key || m.refusal("t") != "no" {
		t.Errorf("got %s, %t, %q", got, ok, m.refusal("t"))
	}
	m.forgetTrigger("t")
	if _, ok := m.refuse("t", "late"); ok || len(m.refusals)+len(m.triggers) != 0 {
		t.Error("a refusal of a trigger that was taken back is kept")
	}
}

func TestPendingRetry(t *testing.T) {
	for name, tc := range map[string]struct{ waited, want time.Duration }{
		"at first every second":           {0, time.Second},
		"then less often":                 {20 * time.Second, 5 * time.Second},
		"never less often than rebinding": {time.Hour, rebindRetry},
	} {
		if got := pendingRetry(tc.waited); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
