package index_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
)

func function(id string, language sandboxv1alpha1.Language) *sandboxv1alpha1.SandboxFunction {
	return &sandboxv1alpha1.SandboxFunction{
		Spec: sandboxv1alpha1.SandboxFunctionSpec{FunctionID: id, Language: language},
	}
}

func TestRuntimeName_isANameAndALabel(t *testing.T) {
	for name, prefix := range map[string]string{
		"a plain prefix":       "shop",
		"capitals":             "Shop",
		"dashes at the ends":   "-shop-",
		"nothing usable":       "___",
		"nothing":              "",
		"other alphabets":      "магазин",
		"the longest there is": strings.Repeat("a", 256),
		"a dash at the cut":    strings.Repeat("a", 39) + "-" + strings.Repeat("b", 100),
		"dots and slashes":     "a.b/c_d",
	} {
		for _, language := range []sandboxv1alpha1.Language{sandboxv1alpha1.LanguageNode, sandboxv1alpha1.LanguagePython} {
			t.Run(name+" in "+string(language), func(t *testing.T) {
				got := index.RuntimeName(function(prefix+"::f", language))
				if errs := validation.IsDNS1123Label(got); len(errs) > 0 {
					t.Errorf("%q: %v", got, errs)
				}
				if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
					t.Errorf("%q as a label: %v", got, errs)
				}
			})
		}
	}
}

func TestRuntimeName_sharesByPrefixAndLanguageOnly(t *testing.T) {
	same := index.RuntimeName(function("shop::price", sandboxv1alpha1.LanguageNode))
	if got := index.RuntimeName(function("shop::stock::count", sandboxv1alpha1.LanguageNode)); got != same {
		t.Errorf("two functions of one prefix are in %s and %s", same, got)
	}
	seen := map[string]string{}
	// Prefixes whose slugs are equal or run into the parts that follow.
	for _, prefix := range []string{
		"shop", "Shop", "SHOP", "-shop", "shop-", "sh-op", "sh_op", "sh.op", "shop-node", "shop-python",
		strings.Repeat("a", 40), strings.Repeat("a", 41), strings.Repeat("a", 255) + "b", "магазин", "_",
	} {
		for _, language := range []sandboxv1alpha1.Language{sandboxv1alpha1.LanguageNode, sandboxv1alpha1.LanguagePython} {
			name := index.RuntimeName(function(prefix+"::f", language))
			if other, taken := seen[name]; taken {
				t.Errorf("%s in %s has the name of %s", prefix, language, other)
			}
			seen[name] = fmt.Sprintf("%s in %s", prefix, language)
		}
	}
	reference := function("shop::price", "")
	reference.Spec.RuntimeRef = &sandboxv1alpha1.LocalReference{Name: "mine"}
	if got := index.RuntimeName(reference); got != "mine" {
		t.Errorf("a referenced runtime is called %s", got)
	}
}

func TestRuntimeName_ofAnOwnRuntime(t *testing.T) {
	seen := map[string]bool{index.RuntimeName(function("shop::price", sandboxv1alpha1.LanguageNode)): true}
	for _, name := range []string{"price", "price-own", "price.own", strings.Repeat("p", 63), strings.Repeat("p", 62) + "q", "shop-node"} {
		fn := function("shop::price", "")
		fn.Name, fn.Spec.Runtime = name, &sandboxv1alpha1.FunctionRuntime{Language: sandboxv1alpha1.LanguageNode}
		got := index.RuntimeName(fn)
		if errs := validation.IsDNS1123Label(got); len(errs) > 0 || seen[got] {
			t.Errorf("the runtime of %s is called %q (taken: %t), %v", name, got, seen[got], errs)
		}
		seen[got] = true
	}
}

func TestSlug(t *testing.T) {
	for text, want := range map[string]string{
		"shop": "shop", "Shop::Price": "shop-price", "--a--b--": "a-b", "": "x", "::": "x",
		strings.Repeat("ab", 40): strings.Repeat("ab", 20),
	} {
		if got := index.Slug(text); got != want {
			t.Errorf("the slug of %q is %q, want %q", text, got, want)
		}
	}
	if a, b := index.Hash("a"), index.Hash("b"); a == b || len(a) != 10 || index.Hash("a") != a {
		t.Errorf("hashes %q and %q", a, b)
	}
}

// TestDefinitions finds objects through a client that has the indexes.
func TestDefinitions(t *testing.T) {
	scheme, err := testenv.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	key := func(name string) *sandboxv1alpha1.KeyReference {
		return &sandboxv1alpha1.KeyReference{Name: name, Key: "k"}
	}
	shared, own := function("shop::price", sandboxv1alpha1.LanguageNode), function("shop::stock", "")
	shared.Name, own.Name = "shared", "own"
	own.Spec.RuntimeRef = &sandboxv1alpha1.LocalReference{Name: "mine"}
	own.Spec.Source.ConfigMapKeyRef = key("code")
	runtime := &sandboxv1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{Name: "mine"},
		Spec: sandboxv1alpha1.SandboxRuntimeSpec{GuestSpec: sandboxv1alpha1.GuestSpec{Env: []sandboxv1alpha1.EnvVar{
			{Name: "A", ValueFrom: &sandboxv1alpha1.KeySource{ConfigMapKeyRef: key("settings")}},
			{Name: "B", ValueFrom: &sandboxv1alpha1.KeySource{SecretKeyRef: key("secrets")}},
			{Name: "C"},
		}}},
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(shared, own, runtime)
	for _, d := range index.Definitions() {
		builder = builder.WithIndex(d.Object, d.Field, d.Extract)
	}
	c := builder.Build()
	for field, tc := range map[string]struct {
		list  client.ObjectList
		value string
		want  []string
	}{
		index.FunctionByID:        {&sandboxv1alpha1.SandboxFunctionList{}, "shop::price", []string{"shared"}},
		index.FunctionByPrefix:    {&sandboxv1alpha1.SandboxFunctionList{}, "shop", []string{"own", "shared"}},
		index.FunctionByRuntime:   {&sandboxv1alpha1.SandboxFunctionList{}, "mine", []string{"own"}},
		index.FunctionByConfigMap: {&sandboxv1alpha1.SandboxFunctionList{}, "code", []string{"own"}},
		index.RuntimeByConfigMap:  {&sandboxv1alpha1.SandboxRuntimeList{}, "settings", []string{"mine"}},
	} {
		if err := c.List(t.Context(), tc.list, client.MatchingFields{field: tc.value}); err != nil {
			t.Errorf("%s: %v", field, err)
		}
		if diff := cmp.Diff(tc.want, names(tc.list)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	var none sandboxv1alpha1.SandboxRuntimeList
	if err := c.List(t.Context(), &none, client.MatchingFields{index.RuntimeByConfigMap: "secrets"}); err != nil || len(none.Items) > 0 {
		t.Errorf("a Secret counts as a ConfigMap: %d runtimes, %v", len(none.Items), err)
	}
}

func names(list client.ObjectList) []string {
	var found []string
	switch l := list.(type) {
	case *sandboxv1alpha1.SandboxFunctionList:
		for _, i := range l.Items {
			found = append(found, i.Name)
		}
	case *sandboxv1alpha1.SandboxRuntimeList:
		for _, i := range l.Items {
			found = append(found, i.Name)
		}
	}
	slices.Sort(found)
	return found
}
