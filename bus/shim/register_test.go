package shim

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func registration(id string, changes ...any) map[string]any {
	payload := map[string]any{"function_id": id, "source": "export const handler = () => 1", "lang": "node"}
	for i := 0; i+1 < len(changes); i += 2 {
		payload[changes[i].(string)] = changes[i+1]
	}
	return payload
}

func TestRegister_refusals(t *testing.T) {
	prefix65 := strings.Repeat("a", 65)
	cases := map[string]struct {
		payload any
		want    []string
	}{
		"source is missing":          {`{"function_id":"a::b","lang":"node"}`, []string{"source is missing"}},
		"lang is missing":            {`{"function_id":"a::b","source":"1"}`, []string{"lang is missing"}},
		"lang is null":               {`{"function_id":"a::b","source":"1","lang":null}`, []string{"lang must be"}},
		"function id is a number":    {`{"function_id":1,"source":"1","lang":"node"}`, []string{"function_id must be a string"}},
		"description is a number":    {`{"function_id":"a::b","source":"1","lang":"node","description":1}`, []string{"description must be a string"}},
		"source is empty":            {registration("bad id", "source", ""), []string{"source is empty", "handler"}},
		"source is too large":        {registration("bad id", "source", strings.Repeat("x", 1<<20+1)), []string{"source has 1048577 bytes", "1048576"}},
		"id is too long":             {registration("a::"+strings.Repeat("é", 127), "description", strings.Repeat("d", 4097)), []string{"function_id has 257 bytes", "256"}},
		"description is too long":    {registration("bad id", "description", strings.Repeat("é", 2049)), []string{"description has 4098 bytes", "4096"}},
		"id without separator":       {registration("price"), []string{`"price"`, "shop::price"}},
		"id without head":            {registration("::price"), []string{"namespace is empty"}},
		"id without tail":            {registration("shop::"), []string{`"shop::"`}},
		"upper case":                 {registration("Shop::price"), []string{`"Shop"`}},
		"two dots":                   {registration("a..b::price"), []string{`"a..b"`, "two dots"}},
		"leading dot":                {registration(".a::price"), []string{`".a"`, "dot"}},
		"namespace of 65 bytes":      {registration(prefix65 + "::p"), []string{"65 bytes", "64"}},
		"id of the worker itself":    {registration("sandbox-code-runner::run"), []string{"already registered"}},
		"id that comes later":        {registration("sandbox-code-runner::ui-content"), []string{"already registered"}},
		"another id of the worker":   {registration("sandbox-code-runner::mine"), []string{"belongs to the engine or the sandbox"}},
		"namespace of the engine":    {registration("engine::functions"), []string{`"engine"`}},
		"namespace of the sandboxes": {registration("sandbox::exec"), []string{`"sandbox"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			wantText(t, w.callError("register_function", tc.payload), append(tc.want, "invalid_request: ")...)
			if diff := cmp.Diff([]string{}, w.wrote()); diff != "" || w.bus.probed() != 0 {
				t.Errorf("a refused registration asked the bus %d times and wrote (-want +got):\n%s", w.bus.probed(), diff)
			}
		})
	}
}

func TestRegister(t *testing.T) {
	w := newWorld(t)
	payload := registration("shop::price", "description", "what it costs", "_caller_worker_id", "w")
	want := map[string]any{"function_id": "shop::price", "registered": true}
	if diff := cmp.Diff(want, w.mustCall("register_function", payload)); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	functions := w.functions()
	if len(functions) != 1 {
		t.Fatalf("%d functions", len(functions))
	}
	got := functions[0]
	wantSpec := v1alpha1.SandboxFunctionSpec{
		FunctionID:  "shop::price",
		Language:    v1alpha1.LanguageNode,
		Source:      v1alpha1.FunctionSource{Inline: ptr.To("export const handler = () => 1")},
		Description: "what it costs",
	}
	if diff := cmp.Diff(wantSpec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	wantLabels := map[string]string{v1alpha1.OriginLabel: v1alpha1.OriginBus, v1alpha1.PrefixHashLabel: shortHash("shop")}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got.Namespace != testNamespace || got.Annotations[v1alpha1.FunctionIDAnnotation] != "shop::price" {
		t.Errorf("namespace %q, annotations %v", got.Namespace, got.Annotations)
	}
}

func TestRegister_genericDescription(t *testing.T) {
	for name, payload := range map[string]map[string]any{
		"absent": registration("shop::a"), "empty": registration("shop::a", "description", ""),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustCall("register_function", payload)
			wantText(t, w.functions()[0].Spec.Description, "sandbox-code-runner", "microVM")
		})
	}
}

func TestFunctionName(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	cases := map[string]string{
		"a plain id keeps its words":       "shop::price",
		"other characters become hyphens":  "_shop.eu::Preis für 1 Stück!",
		"nothing to keep still has a name": "--::☃",
		"long ids are cut":                 "shop::" + strings.Repeat("long-", 50),
	}
	seen := map[string]string{}
	for name, id := range cases {
		got := functionName(id)
		if !form.MatchString(got) || len(got) > maxSlugBytes+1+shortHashDigits || !strings.HasSuffix(got, shortHash(id)) {
			t.Errorf("%s: %q becomes %q", name, id, got)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q share the name %q", id, other, got)
		}
		seen[got] = id
	}
	if got, want := functionName("shop::price"), "shop-price-"+shortHash("shop::price"); got != want {
		t.Errorf("name %q, want %q", got, want)
	}
}

func TestRegister_prefixOf64Bytes(t *testing.T) {
	w := newWorld(t)
	w.mustCall("register_function", registration(strings.Repeat("a", 64)+"::p"))
}

func TestRegister_largeSource(t *testing.T) {
	for name, size := range map[string]int{
		"128 KiB are inline": v1alpha1.MaxInlineSourceBytes, "more is in a ConfigMap": v1alpha1.MaxInlineSourceBytes + 1, "1 MiB is accepted": 1 << 20,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			source := strings.Repeat("x", size)
			w.mustCall("register_function", registration("shop::big", "source", source, "lang", "python"))
			function, stored := w.functions()[0], w.configMaps()
			ref := function.Spec.Source.ConfigMapKeyRef
			if size <= v1alpha1.MaxInlineSourceBytes {
				if *function.Spec.Source.Inline != source || ref != nil || len(stored) != 0 {
					t.Errorf("source %v, %d ConfigMaps", ref, len(stored))
				}
				return
			}
			if len(stored) != 1 || ref == nil || ref.Name != stored[0].Name || ref.Key != "handler.py" || function.Spec.Source.Inline != nil {
				t.Fatalf("source %v, %d ConfigMaps", ref, len(stored))
			}
			if stored[0].Data[ref.Key] != source || !*stored[0].Immutable {
				t.Errorf("stored %d bytes, immutable %t", len(stored[0].Data[ref.Key]), *stored[0].Immutable)
			}
			if owner := metav1.GetControllerOf(&stored[0]); owner == nil || owner.UID != function.UID || owner.Kind != "SandboxFunction" {
				t.Errorf("owner %v", owner)
			}
		})
	}
}

func TestRegister_largeSourceLeavesNothingAfterAFailure(t *testing.T) {
	large := registration("shop::big", "source", strings.Repeat("x", 1<<20))
	for _, broken := range []string{"create ConfigMap", "create SandboxFunction", "patch ConfigMap"} {
		t.Run(broken, func(t *testing.T) {
			w := newWorld(t)
			w.setFault(func(verb string, obj client.Object) error {
				if verb+" "+kindOf(obj) == broken {
					return apierrors.NewServiceUnavailable("down")
				}
				return nil
			})
			wantText(t, w.callError("register_function", large), "engine: ")
			if functions, stored := w.functions(), w.configMaps(); len(functions)+len(stored) != 0 {
				t.Errorf("%d functions and %d ConfigMaps left", len(functions), len(stored))
			}
			w.setFault(nil)
			w.mustCall("register_function", large)
		})
	}
}

func TestRegister_removesLeftoversOfAnInterruption(t *testing.T) {
	w := newWorld(t)
	large := registration("shop::big", "source", strings.Repeat("x", 1<<20))
	for _, id := range []string{"shop::big", "shop::other"} {
		f := w.shim.newFunction(t.Context(), registerRequest{functionID: id, language: v1alpha1.LanguageNode}, "shop")
		if _, err := w.shim.storeSource(t.Context(), f, "left"); err != nil {
			t.Fatal(err)
		}
	}
	w.mustCall("register_function", large)
	left := map[string]int{}
	for _, stored := range w.configMaps() {
		left[stored.Annotations[v1alpha1.FunctionIDAnnotation]]++
	}
	if diff := cmp.Diff(map[string]int{"shop::big": 1, "shop::other": 1}, left); diff != "" {
		t.Errorf("ConfigMaps by function (-want +got):\n%s", diff)
	}
}

func TestRegister_taken(t *testing.T) {
	elsewhere := &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "price"},
		Spec:       v1alpha1.SandboxFunctionSpec{FunctionID: "shop::price", Language: v1alpha1.LanguageNode},
	}
	cases := map[string]struct {
		arrange    func(*world)
		wantProbes int
		want       []string
	}{
		"by an earlier registration": {func(w *world) {
			w.mustCall("register_function", registration("shop::price"))
		}, 1, []string{"invalid_request: ", "shop::price", "already registered", "by SandboxFunction runs/shop-price-"}},
		"by a function of kubectl anywhere": {func(w *world) {
			if err := w.api.Create(w.t.Context(), elsewhere.DeepCopy()); err != nil {
				w.t.Fatal(err)
			}
		}, 0, []string{"invalid_request: ", "already registered", "by SandboxFunction team/price"}},
		"by another worker": {func(w *world) {
			w.bus.info = func(string) error { return nil }
		}, 1, []string{"invalid_request: ", "already registered", `by the worker "stranger"`}},
		"or maybe: the engine lacks the catalog": {func(w *world) {
			w.bus.info = func(string) error {
				return &bus.RemoteError{Code: protocol.CodeFunctionNotFound, Message: "engine::functions::info"}
			}
		}, 1, []string{"engine: ", "shop::price"}},
		"or maybe: the catalog is forbidden": {func(w *world) {
			w.bus.info = func(string) error { return &bus.RemoteError{Code: protocol.CodeForbidden} }
		}, 1, []string{"engine: "}},
		"or maybe: the bus is away": {func(w *world) {
			w.bus.info = func(string) error { return bus.ErrNotConnected }
		}, 1, []string{"engine: ", "not connected"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.arrange(w)
			before := len(w.functions())
			wantText(t, w.callError("register_function", registration("shop::price")), tc.want...)
			if got := w.bus.probed(); got != tc.wantProbes {
				t.Errorf("%d probes, want %d", got, tc.wantProbes)
			}
			if got := len(w.functions()); got != before {
				t.Errorf("%d functions, had %d", got, before)
			}
		})
	}
}

func TestRegister_retryAfterAFailedProbe(t *testing.T) {
	w := newWorld(t)
	w.bus.info = func(string) error { return bus.ErrNotConnected }
	w.callError("register_function", registration("shop::price"))
	w.bus.info = notOnBus
	w.mustCall("register_function", registration("shop::price"))
}

func TestRegister_sameIDAtOnce(t *testing.T) {
	w := newWorld(t)
	var group sync.WaitGroup
	failures := make(chan error, 8)
	for i := range 8 {
		group.Go(func() {
			_, err := w.call(t.Context(), "register_function", registration("shop::price", "lang", []string{"node", "python"}[i%2]))
			failures <- err
		})
	}
	group.Wait()
	close(failures)
	won := 0
	for err := range failures {
		if err == nil {
			won++
			continue
		}
		wantText(t, errorText(t, err), "invalid_request: ", "already registered")
	}
	if won != 1 || len(w.functions()) != 1 {
		t.Errorf("%d registrations won, %d functions", won, len(w.functions()))
	}
}

func TestRegister_cap(t *testing.T) {
	w := newWorld(t)
	for i := range maxFunctions {
		w.mustCall("register_function", registration(fmt.Sprintf("shop::f%d", i)))
	}
	wantText(t, w.callError("register_function", registration("shop::more")), "invalid_request: ", "already holds 64")
	if got := len(w.functions()); got != maxFunctions {
		t.Errorf("%d functions", got)
	}
	w.mustCall("register_function", registration("shop::more", "lang", "python"))
	w.mustCall("register_function", registration("shop2::more"))
}
