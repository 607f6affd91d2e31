package slim_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/slim"
)

const smallSource, largeSource = 8 << 10, 8<<10 + 1

// aRun has an inline source of this many bytes, and everything else that is large.
func aRun(size int, phase sandboxv1alpha1.RunPhase) *sandboxv1alpha1.SandboxRun {
	run := &sandboxv1alpha1.SandboxRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "once"},
		Spec: sandboxv1alpha1.SandboxRunSpec{
			Language: sandboxv1alpha1.LanguageNode,
			Source:   sandboxv1alpha1.RunSource{Inline: ptr.To(strings.Repeat("x", size))},
			Stdin:    "in", Args: []string{"a"}, Env: []sandboxv1alpha1.EnvVar{{Name: "A"}}, Files: []sandboxv1alpha1.File{{Path: "f"}},
			Runtime: &sandboxv1alpha1.GuestSpec{
				Image: "node", Env: []sandboxv1alpha1.EnvVar{{Name: "B"}}, Files: []sandboxv1alpha1.File{{Path: "g"}}, Setup: []string{"true"},
			},
			TTLSecondsAfterFinished: ptr.To[int32](60),
		},
		Status: sandboxv1alpha1.SandboxRunStatus{Phase: phase, AttemptDigest: "digest"},
	}
	if run.IsFinished() {
		run.Status.Stdout, run.Status.Stderr = "out", "err"
		run.Status.Result = &apiextensionsv1.JSON{Raw: []byte("1")}
	}
	return run
}

func TestTransform_runsThatHaveNotEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		run   *sandboxv1alpha1.SandboxRun
		lacks bool
	}{
		"a small source stays":        {aRun(smallSource, sandboxv1alpha1.RunPending), false},
		"and while the program runs":  {aRun(smallSource, sandboxv1alpha1.RunRunning), false},
		"a large source goes":         {aRun(largeSource, ""), true},
		"and while the program runs.": {aRun(largeSource, sandboxv1alpha1.RunRunning), true},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.run.DeepCopy()
			if tc.lacks {
				want.Spec.Source.Inline = nil
			}
			got := transform(t, transform(t, tc.run)) // An informer may do it again.
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("in the cache is (-want +got):\n%s", diff)
			}
			if slim.LacksSource(got) != tc.lacks {
				t.Errorf("the source is said to be missing: %t", !tc.lacks)
			}
		})
	}
}

func TestTransform_otherSourcesOfRuns(t *testing.T) {
	for name, source := range map[string]sandboxv1alpha1.RunSource{
		"a ConfigMap":   {ConfigMapKeyRef: &sandboxv1alpha1.KeyReference{Name: "code", Key: "k"}},
		"a bus message": {Transient: &sandboxv1alpha1.TransientSource{SHA256: "digest"}},
	} {
		t.Run(name, func(t *testing.T) {
			run := aRun(0, sandboxv1alpha1.RunPending)
			run.Spec.Source = source
			if got := transform(t, run); slim.LacksSource(got) || !cmp.Equal(got.Spec.Source, source) {
				t.Errorf("the source is %+v", got.Spec.Source)
			}
		})
	}
}

// TestTransform_runsThatHaveEnded leaves what the operator reads of them, and makes
// the patch that it still writes for some.
func TestTransform_runsThatHaveEnded(t *testing.T) {
	got := transform(t, aRun(smallSource, sandboxv1alpha1.RunFailed))
	want := aRun(0, sandboxv1alpha1.RunFailed)
	want.Spec = sandboxv1alpha1.SandboxRunSpec{
		Language: sandboxv1alpha1.LanguageNode, Runtime: &sandboxv1alpha1.GuestSpec{Image: "node"},
		TTLSecondsAfterFinished: ptr.To[int32](60),
	}
	want.Status = sandboxv1alpha1.SandboxRunStatus{Phase: sandboxv1alpha1.RunFailed, AttemptDigest: "digest"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in the cache is (-want +got):\n%s", diff)
	}
	changed := got.DeepCopy()
	changed.Status.ObservedGeneration = 2
	patch, err := client.MergeFrom(got).Data(changed)
	if err != nil || string(patch) != `{"status":{"observedGeneration":2}}` {
		t.Errorf("the patch is %s, %v", patch, err)
	}
}
