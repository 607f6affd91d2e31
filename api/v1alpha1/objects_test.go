package v1alpha1_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// kind is a kind of the API with the smallest spec that it accepts, and the status
// of an object that the operator has not looked at.
type kind struct {
	name, minimal, fresh string
}

var (
	runtimeKind  = kind{"SandboxRuntime", `{language: Node}`, `{observedGeneration: -1, replicas: 0, readyReplicas: 0, functions: 0}`}
	functionKind = kind{"SandboxFunction", `{functionID: "shop::price", language: Node, source: {inline: "x"}}`, `{observedGeneration: -1}`}
	runKind      = kind{"SandboxRun", `{language: Python, source: {inline: "x"}}`, `{observedGeneration: -1}`}

	kinds = []kind{runtimeKind, functionKind, runKind}
)

// edit changes a spec for one table entry.
type edit func(spec map[string]any)

// set puts a value, written in YAML, at a dotted path.
func set(path, value string) edit {
	return func(spec map[string]any) {
		var decoded any
		Expect(yaml.Unmarshal([]byte(value), &decoded)).To(Succeed())
		setAt(spec, path, decoded)
	}
}

// setText puts a string at a dotted path, as it is.
func setText(path, text string) edit {
	return func(spec map[string]any) { setAt(spec, path, text) }
}

func unset(path string) edit {
	return func(spec map[string]any) {
		unstructured.RemoveNestedField(spec, strings.Split(path, ".")...)
	}
}

func setAt(spec map[string]any, path string, value any) {
	GinkgoHelper()
	Expect(unstructured.SetNestedField(spec, jsonNumbers(value), strings.Split(path, ".")...)).To(Succeed())
}

// jsonNumbers turns whole float64 values into int64, the only integer that the
// unstructured helpers copy.
func jsonNumbers(value any) any {
	switch v := value.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = jsonNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = jsonNumbers(v[key])
		}
	}
	return value
}

// object is the minimal object of a kind after the edits.
func (k kind) object(namespace string, edits ...edit) *unstructured.Unstructured {
	GinkgoHelper()
	spec := map[string]any{}
	Expect(yaml.Unmarshal([]byte(k.minimal), &spec)).To(Succeed())
	for _, change := range edits {
		change(spec)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.name))
	object.SetNamespace(namespace)
	object.SetGenerateName("case-")
	return object
}

// tryCreate asks the API server without storing anything.
func (k kind) tryCreate(ctx context.Context, namespace string, edits ...edit) error {
	return apiClient.Create(ctx, k.object(namespace, edits...), client.DryRunAll)
}

// tryUpdate stores an object and asks whether a change of it would be taken.
func (k kind) tryUpdate(ctx context.Context, namespace string, before, change []edit) error {
	GinkgoHelper()
	object := k.object(namespace, before...)
	Expect(apiClient.Create(ctx, object)).To(Succeed())
	spec := object.Object["spec"].(map[string]any)
	for _, e := range change {
		e(spec)
	}
	return apiClient.Update(ctx, object, client.DryRunAll)
}

// expectRefusal wants an Invalid answer that names every given fragment: the
// field and what to do.
func expectRefusal(err error, fragments ...string) {
	GinkgoHelper()
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), "want a refusal, got: %v", err)
	for _, fragment := range fragments {
		Expect(err.Error()).To(ContainSubstring(fragment))
	}
}

// edits and says keep table entries on one line.
func edits(e ...edit) []edit { return e }

func says(fragments ...string) []string { return fragments }
