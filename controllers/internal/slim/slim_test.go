package slim_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/slim"
	"github.com/sandbox-operator/sandbox-operator/guest"
)

// stored is a function as kubectl apply leaves it, with a source of this many
// bytes.
func stored(t testing.TB, name string, size int) *sandboxv1alpha1.SandboxFunction {
	t.Helper()
	source := strings.Repeat("x", size)
	fn := &sandboxv1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "apps", Name: name, Finalizers: []string{sandboxv1alpha1.FunctionFinalizer},
			Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: source, "mine": "kept"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{}`)}},
		},
		Spec: sandboxv1alpha1.SandboxFunctionSpec{
			FunctionID: "shop::" + name, Language: sandboxv1alpha1.LanguageNode,
			Source: sandboxv1alpha1.FunctionSource{Inline: &source},
		},
	}
	encoded, err := json.Marshal(fn)
	if err != nil {
		t.Fatal(err)
	}
	var decoded sandboxv1alpha1.SandboxFunction
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	return &decoded
}

func transform[T any](t testing.TB, obj T) T {
	t.Helper()
	out, err := slim.Transform(obj)
	if err != nil {
		t.Fatal(err)
	}
	return out.(T)
}

func TestTransform_keepsTheDigest(t *testing.T) {
	fn := transform(t, stored(t, "price", 10))
	fn = transform(t, fn) // An informer may do it again.
	digest, inline := slim.InlineDigest(fn)
	if !inline || digest != guest.SourceDigest([]byte(strings.Repeat("x", 10))) {
		t.Errorf("the digest is %q (%t)", digest, inline)
	}
	if fn.Spec.Source.Inline != nil || len(fn.ManagedFields) > 0 || fn.Annotations["mine"] != "kept" ||
		fn.Annotations[corev1.LastAppliedConfigAnnotation] != "" {
		t.Errorf("what is left is %+v", fn)
	}
}

func TestTransform_believesNoAnnotationOfUsers(t *testing.T) {
	forged := transform(t, stored(t, "price", 10)).Annotations
	fromMap := stored(t, "price", 10)
	fromMap.Annotations = forged
	fromMap.Spec.Source = sandboxv1alpha1.FunctionSource{ConfigMapKeyRef: &sandboxv1alpha1.KeyReference{Name: "code", Key: "k"}}
	if digest, inline := slim.InlineDigest(transform(t, fromMap)); inline || digest != "" {
		t.Errorf("a source from a ConfigMap counts as inline: %q", digest)
	}
	other := stored(t, "price", 20)
	other.Annotations = forged
	if digest, _ := slim.InlineDigest(transform(t, other)); digest != guest.SourceDigest([]byte(strings.Repeat("x", 20))) {
		t.Errorf("the annotation of the user beats the source: %q", digest)
	}
}

// TestTransform_patchesHoldNoSource makes the two kinds of patches that the
// operator writes for functions.
func TestTransform_patchesHoldNoSource(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*sandboxv1alpha1.SandboxFunction)
		want   string
	}{
		"status":     {func(fn *sandboxv1alpha1.SandboxFunction) { fn.Status.RuntimeName = "r" }, `{"status":{"runtimeName":"r"}}`},
		"finalizers": {func(fn *sandboxv1alpha1.SandboxFunction) { fn.Finalizers = nil }, `{"metadata":{"finalizers":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			base := transform(t, stored(t, "price", 10))
			changed := base.DeepCopy()
			tc.change(changed)
			patch, err := client.MergeFrom(base).Data(changed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(patch)); diff != "" {
				t.Errorf("the patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTransform_otherKinds(t *testing.T) {
	object := transform(t, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "code", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}})
	if len(object.ManagedFields) > 0 || len(object.Annotations) > 0 || object.Name != "code" {
		t.Errorf("what is left is %+v", object)
	}
	if out := transform(t, "a tombstone"); out != "a tombstone" {
		t.Errorf("a tombstone became %v", out)
	}
}

// TestTransform_memory holds functions with the largest sources in memory, as the
// cache does.
func TestTransform_memory(t *testing.T) {
	const functions, most = 200, 4 << 10
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	kept := make([]*sandboxv1alpha1.SandboxFunction, 0, functions)
	for i := range functions {
		kept = append(kept, transform(t, stored(t, fmt.Sprint("f", i), sandboxv1alpha1.MaxInlineSourceBytes)))
	}
	each := (int64(heap()) - int64(before)) / functions
	if each > most {
		t.Errorf("a function takes %d bytes, at most %d are wanted", each, most)
	}
	t.Logf("%d bytes a function", each)
	runtime.KeepAlive(kept)
}
