package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// referenceKinds are the fields of the kinds that name another object.
var referenceKinds = map[string]string{
	"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret", "runtimeRef": "SandboxRuntime",
}

// TestNameReference finds the fields that refer to other objects in the CRDs:
// kustomize must know each, or a generated name does not arrive there.
func TestNameReference(t *testing.T) {
	want := []string{}
	for _, path := range crdPaths(t) {
		crd := readYAML[apiextensionsv1.CustomResourceDefinition](t, path)
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		for _, found := range references(spec, "spec") {
			want = append(want, crd.Spec.Names.Kind+" "+found)
		}
	}
	slices.Sort(want)
	got := knownReferences(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func crdPaths(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d CRDs: %v", len(paths), err)
	}
	return paths
}

// references lists path and kind of each reference below a field.
func references(field apiextensionsv1.JSONSchemaProps, path string) []string {
	if field.Items != nil && field.Items.Schema != nil {
		return references(*field.Items.Schema, path)
	}
	var found []string
	for name, property := range field.Properties {
		below := path + "/" + name
		if kind := referenceKinds[name]; kind != "" {
			found = append(found, below+"/name "+kind)
			continue
		}
		found = append(found, references(property, below)...)
	}
	return found
}

// knownReferences are those that the component tells kustomize.
func knownReferences(t *testing.T) []string {
	t.Helper()
	type fieldSpec struct{ Kind, Path string }
	config := readYAML[struct {
		NameReference []struct {
			Kind       string
			FieldSpecs []fieldSpec
		}
	}](t, filepath.Join(root, "config", "namereference", "kustomizeconfig.yaml"))
	found := []string{}
	for _, reference := range config.NameReference {
		for _, field := range reference.FieldSpecs {
			found = append(found, field.Kind+" "+field.Path+" "+reference.Kind)
		}
	}
	slices.Sort(found)
	return found
}

func readYAML[T any](t *testing.T, path string) (value T) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return value
}
