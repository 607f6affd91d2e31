package sandboxruntime

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// crash loses the sandboxes a while after they were ready, and returns how long
// the next one waits.
func (w *world) crash(after time.Duration) time.Duration {
	w.t.Helper()
	w.clock.Step(after)
	for _, info := range w.sandboxes() {
		w.provider.Lose(info.ID)
	}
	w.settle()
	return max(w.memory.get(objectUID).crashes.bootAt.Sub(w.clock.Now()), 0)
}

func TestCrashes(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	var delays []time.Duration
	for n := range 8 {
		delay := w.crash(time.Second)
		delays = append(delays, delay)
		if n == 0 {
			w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		} else {
			w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimeCrashLoopReason)
		}
		if left := len(w.sandboxes()); n > 0 && left != 0 {
			t.Errorf("after crash %d there are %d sandboxes at once", n, left)
		}
		w.clock.Step(delay)
		w.settle()
		w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	}
	s := time.Second
	want := []time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}
	if diff := cmp.Diff(want, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
}

// One event a loop tells of it; the losses have their own.
func TestCrashes_event(t *testing.T) {
	told := func(w *world) (n int) {
		for _, reason := range w.events() {
			if reason == sandboxv1alpha1.SandboxRuntimeCrashLoopReason {
				n++
			}
		}
		return n
	}
	w := newWorld(t, newRuntime())
	w.settle()
	for crash, want := range []int{0, 1, 0, 0} {
		w.clock.Step(w.crash(time.Second))
		w.settle()
		if got := told(w); got != want {
			t.Errorf("crash %d has %d events, want %d", crash, got, want)
		}
	}
	w.edit(withOtherImage)
	w.settle()
	w.crash(time.Second)
	w.crash(time.Second)
	if got := told(w); got != 1 {
		t.Errorf("the loop of another spec has %d events, want 1", got)
	}
}

func TestCrashes_whatCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas int32
		act      func(w *world)
		want     int
	}{
		"lost within a minute":    {1, func(w *world) { w.crash(59 * time.Second) }, 1},
		"lost after it":           {1, func(w *world) { w.crash(61 * time.Second) }, 0},
		"lost all together":       {3, func(w *world) { w.crash(time.Second) }, 1},
		"stopped by the operator": {1, func(w *world) { w.edit(suspended); w.settle() }, 0},
		"lost with the daemon": {1, func(w *world) {
			w.daemonAway()
			w.reconcile()
			w.crash(time.Second)
		}, 0},
		"lost over a restart of the operator": {1, func(w *world) {
			w.restart()
			w.settle()
			w.crash(time.Second)
		}, 0},
		"forgotten after ten good minutes": {1, func(w *world) {
			w.crash(time.Second)
			w.clock.Step(health)
			w.settle()
		}, 0},
		"not forgotten while one is young": {2, func(w *world) {
			w.crash(time.Second)
			w.clock.Step(health - time.Second)
			w.settle()
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(withReplicas(tc.replicas)))
			w.settle()
			tc.act(w)
			if got := w.memory.get(objectUID).crashes.count; got != tc.want {
				t.Errorf("%d crashes are counted, want %d", got, tc.want)
			}
		})
	}
}

func TestCrashes_anotherSpecBootsAtOnce(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	for range 3 {
		w.clock.Step(w.crash(time.Second))
		w.settle()
	}
	w.crash(time.Second)
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimeCrashLoopReason)
	w.edit(withOtherImage)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
}
