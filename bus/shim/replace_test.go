package shim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const newer = "export const handler = () => 2"

func replacement(id string, changes ...any) map[string]any {
	return registration(id, append([]any{"source", newer, "replace", true}, changes...)...)
}

func TestReplace(t *testing.T) {
	w := newWorld(t)
	w.mustCall("register_function", registration("shop::price", "description", "old", "timeout_ms", 7,
		"request_format", map[string]any{"type": "object"}))
	before := w.functions()[0]
	before.Spec.Triggers = []v1alpha1.FunctionTrigger{{Name: "nightly", Type: "cron"}}
	if err := w.behind.Update(t.Context(), &before); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"function_id": "shop::price", "registered": true}
	if diff := cmp.Diff(want, w.mustCall("register_function", replacement("shop::price", "description", "new"))); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	after := w.functions()
	if len(after) != 1 || after[0].UID != before.UID || after[0].Generation != before.Generation+1 {
		t.Fatalf("functions %+v", after)
	}
	wantSpec := v1alpha1.SandboxFunctionSpec{
		FunctionID: "shop::price", Language: v1alpha1.LanguageNode, Description: "new",
		Source: v1alpha1.FunctionSource{Inline: ptr.To(newer)}, Triggers: before.Spec.Triggers,
	}
	if diff := cmp.Diff(wantSpec, after[0].Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if w.bus.probed() != 1 {
		t.Errorf("the bus was asked %d times, but our own id is there", w.bus.probed())
	}
}

func TestReplace_nothingThere(t *testing.T) {
	w := newWorld(t)
	w.mustCall("register_function", replacement("shop::price"))
	if got := len(w.functions()); got != 1 {
		t.Errorf("%d functions", got)
	}
}

func TestReplace_ownRuntime(t *testing.T) {
	w := newWorld(t)
	w.mustCall("register_function", registration("shop::own", "packages", []string{"a"}))
	w.mustCall("register_function", replacement("shop::own", "packages", []string{"b"}, "env", map[string]any{"A": "1"}))
	got := w.functions()[0].Spec.Runtime
	if got == nil || len(got.Env) != 1 || !cmp.Equal(got.Packages, []string{"b"}) {
		t.Errorf("runtime %+v", got)
	}
	w.mustCall("register_function", replacement("shop::own"))
	if got := w.functions()[0].Spec.Runtime; got == nil || got.Env != nil || got.Packages != nil {
		t.Errorf("runtime %+v", got)
	}
}

func TestReplace_refusals(t *testing.T) {
	kubectl := func(namespace string) func(w *world) {
		return func(w *world) {
			f := &v1alpha1.SandboxFunction{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: functionName("shop::price")},
				Spec:       v1alpha1.SandboxFunctionSpec{FunctionID: "shop::price", Language: v1alpha1.LanguageNode},
			}
			if err := w.behind.Create(w.t.Context(), f); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	register := func(w *world) { w.mustCall("register_function", registration("shop::price")) }
	cases := map[string]struct {
		arrange func(*world)
		payload map[string]any
		want    []string
	}{
		"of a function of kubectl elsewhere": {kubectl("team"), replacement("shop::price"),
			[]string{"SandboxFunction team/shop-price-", "not made over the bus"}},
		"of a function of kubectl in the runs namespace": {kubectl(testNamespace), replacement("shop::price"),
			[]string{"SandboxFunction runs/shop-price-", "not made over the bus"}},
		"in another language": {register, replacement("shop::price", "lang", "python"), []string{`lang is "python"`, `"node"`}},
		"with a runtime of its own": {register, replacement("shop::price", "packages", []string{"a"}),
			[]string{"shares the microVM", "tear it down first"}},
		"without being asked for": {register, registration("shop::price"),
			[]string{"already registered on this bus by SandboxFunction runs/shop-price-"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.arrange(w)
			before := w.wrote()
			wantText(t, w.callError("register_function", tc.payload), append(tc.want, "invalid_request: ")...)
			if diff := cmp.Diff(before, w.wrote()); diff != "" {
				t.Errorf("a refused replacement wrote (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReplace_badCode: the former code stays when the new one does not work.
func TestReplace_badCode(t *testing.T) {
	for name, source := range map[string]string{"a small source": newer, "a large source": strings.Repeat("x", 1<<20)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustCall("register_function", registration("shop::big", "source", strings.Repeat("y", 1<<20)))
			before := w.functions()[0].Spec
			w.onFunction = func(f *v1alpha1.SandboxFunction) {
				if !cmp.Equal(f.Spec, before) {
					w.setCondition(f, v1alpha1.StalledCondition, v1alpha1.SandboxFunctionSourceInvalidReason, "no handler")
				}
			}
			wantText(t, w.callError("register_function", replacement("shop::big", "source", source)), "invalid_request: ", "no handler")
			if diff := cmp.Diff(before, w.functions()[0].Spec); diff != "" {
				t.Errorf("the former spec (-want +got):\n%s", diff)
			}
			stored := w.configMaps()
			if len(stored) != 1 || stored[0].Name != before.Source.ConfigMapKeyRef.Name {
				t.Errorf("%d ConfigMaps", len(stored))
			}
		})
	}
}

func TestReplace_storedSources(t *testing.T) {
	w := newWorld(t)
	for _, source := range []string{strings.Repeat("x", 1<<20), strings.Repeat("y", 1<<20)} {
		w.mustCall("register_function", replacement("shop::big", "source", source))
		stored, f := w.configMaps(), w.functions()[0]
		if len(stored) != 1 || stored[0].Data["handler.mjs"] != source || f.Spec.Source.ConfigMapKeyRef.Name != stored[0].Name {
			t.Fatalf("%d ConfigMaps, source %+v", len(stored), f.Spec.Source.ConfigMapKeyRef)
		}
		if owner := metav1.GetControllerOf(&stored[0]); owner == nil || owner.UID != f.UID {
			t.Errorf("owner %v", owner)
		}
	}
	w.mustCall("register_function", replacement("shop::big"))
	if left := w.configMaps(); len(left) != 0 {
		t.Errorf("%d ConfigMaps for a small source", len(left))
	}
}

func TestReplace_failedWrite(t *testing.T) {
	w := newWorld(t)
	w.mustCall("register_function", registration("shop::price"))
	w.setFault(func(verb string, obj client.Object) error {
		if verb+" "+kindOf(obj) == "patch SandboxFunction" {
			return apierrors.NewServiceUnavailable("down")
		}
		return nil
	})
	wantText(t, w.callError("register_function", replacement("shop::price", "source", strings.Repeat("x", 1<<20))), "engine: ", "down")
	if left := w.configMaps(); len(left) != 0 {
		t.Errorf("%d ConfigMaps left", len(left))
	}
}

// TestReplace_changedByAnother: kubectl's word counts, once it comes later.
func TestReplace_changedByAnother(t *testing.T) {
	w := newWorld(t)
	w.mustCall("register_function", registration("shop::price"))
	w.onFunction = func(f *v1alpha1.SandboxFunction) {
		later := f.DeepCopy()
		later.Generation++
		later.Spec.Source.Inline = ptr.To("of kubectl")
		if err := w.behind.Update(t.Context(), later); err != nil {
			t.Error(err)
		}
		w.setCondition(later, v1alpha1.StalledCondition, v1alpha1.SandboxFunctionSourceInvalidReason, "no handler")
	}
	w.callError("register_function", replacement("shop::price"))
	if got := *w.functions()[0].Spec.Source.Inline; got != "of kubectl" {
		t.Errorf("source %q", got)
	}
}
