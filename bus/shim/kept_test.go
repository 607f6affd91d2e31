package shim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

func (w *world) keep(payload string) string {
	w.t.Helper()
	id, _ := w.mustCall("run", payload)["runtime_id"].(string)
	if !runtimeIDForm.MatchString(id) {
		w.t.Fatalf("runtime id %q has another form", id)
	}
	return id
}

func TestKeep(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.IdleTimeout = 5 * time.Second })
	w.results.set(settle(Outcome{ExitCode: 3, Stderr: "settled"}))
	id := w.keep(`{"code":"1","lang":"python","keep":true}`)
	runtimes := w.runtimes()
	if len(runtimes) != 1 {
		t.Fatalf("%d runtimes, want the kept one although the program failed", len(runtimes))
	}
	got := runtimes[0]
	want := v1alpha1.SandboxRuntimeSpec{
		Language:  v1alpha1.LanguagePython,
		GuestSpec: v1alpha1.GuestSpec{Network: v1alpha1.AccessEnabled, BusAccess: v1alpha1.AccessEnabled},
		RuntimeScale: v1alpha1.RuntimeScale{
			Concurrency: ptr.To[int32](1),
			Idle:        &v1alpha1.IdlePolicy{TimeoutSeconds: ptr.To[int32](30), Action: v1alpha1.IdleDelete},
		},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("runtime (-want +got):\n%s", diff)
	}
	if got.Name != keptName(id) || got.Labels[v1alpha1.OriginLabel] != v1alpha1.OriginBus {
		t.Errorf("name %q, labels %v", got.Name, got.Labels)
	}
	if strings.Contains(fmt.Sprintf("%+v", got), id) {
		t.Error("the object shows the runtime id")
	}
	run := w.results.all()[0].spec
	if run.RuntimeRef == nil || run.RuntimeRef.Name != got.Name || run.Runtime != nil {
		t.Errorf("run in %v and %v", run.RuntimeRef, run.Runtime)
	}
}

func TestKeptName(t *testing.T) {
	// SHA-256 of the id in RFC 4648 base32, in lower case, by another program.
	const id = "rt-00000000-0000-4000-8000-000000000000"
	if got, want := keptName(id), "kept-3zdwmf3lcimzi76gpndng4elpjduwusw"; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
}

func TestReuse(t *testing.T) {
	cases := map[string]string{
		"lang is left out": ``, "lang is null": `,"lang":null`, "lang is repeated": `,"lang":"node"`,
		"keep is ignored": `,"keep":true`,
	}
	for name, field := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.keep(`{"code":"1","lang":"node","keep":true}`)
			response := w.mustCall("run", `{"code":"2","runtime_id":"`+id+`"`+field+`}`)
			if response["runtime_id"] != id {
				t.Errorf("id %v, want it echoed", response["runtime_id"])
			}
			// Deletions run in the background, in any order.
			want := []string{"create run", "create run", "create runtime", "delete run", "delete run"}
			if diff := cmp.Diff(want, slices.Sorted(slices.Values(w.wrote()))); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReuse_mismatch(t *testing.T) {
	w := newWorld(t)
	id := w.keep(`{"code":"1","lang":"node","keep":true}`)
	text := w.callError("run", `{"code":"2","lang":"python","runtime_id":"`+id+`"}`)
	wantText(t, text, "invalid_request: ", "lang", "cannot be mixed")
	if strings.Contains(text, id) {
		t.Errorf("text %q shows the id", text)
	}
	wantText(t, w.callError("run", `{"code":"2","lang":"python","runtime_id":"rt-no"}`), "runtime_not_found: unknown runtime_id rt-no")
}

func TestReuse_failure(t *testing.T) {
	w := newWorld(t)
	id := w.keep(`{"code":"1","lang":"node","keep":true}`)
	again := `{"code":"2","runtime_id":"` + id + `"}`

	w.results.set(fail(Failure{Code: FailureTimeout}))
	wantText(t, w.callError("run", again), "timeout: "+timeoutMessage)
	w.results.set(settle(Outcome{Success: true}))
	if w.mustCall("run", again)["success"] != true {
		t.Error("the runtime did not survive a deadline")
	}

	w.results.set(fail(Failure{Code: FailureGone}))
	wantText(t, w.callError("run", again), "expired: ", id, "keep: true", "empty file system")
	w.drain()
	wantText(t, w.callError("run", again), "runtime_not_found: unknown runtime_id "+id)
}

func TestReuse_onlyObjectsOfTheBus(t *testing.T) {
	w := newWorld(t)
	const id = "rt-guessed"
	foreign := w.shim.newKept(t.Context(), id, runRequest{language: v1alpha1.LanguageNode})
	foreign.Labels = nil
	if err := w.api.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	leaving := w.shim.newKept(t.Context(), "rt-leaving", runRequest{language: v1alpha1.LanguageNode})
	leaving.Finalizers = []string{v1alpha1.RuntimeFinalizer}
	if err := w.api.Create(t.Context(), leaving); err != nil {
		t.Fatal(err)
	}
	w.mustCall("teardown", `{"runtime_id":"rt-leaving"}`)
	for _, unknown := range []string{id, "rt-leaving"} {
		want := "runtime_not_found: unknown runtime_id " + unknown
		for _, function := range []string{"run", "teardown"} {
			if got := w.callError(function, `{"code":"1","runtime_id":"`+unknown+`"}`); got != want {
				t.Errorf("%s: error %q, want %q", function, got, want)
			}
		}
	}
	if left := w.runtimes(); len(left) != 2 {
		t.Errorf("%d runtimes, want the foreign one and the leaving one", len(left))
	}
}

func TestTeardownKept(t *testing.T) {
	w := newWorld(t)
	id := w.keep(`{"code":"1","lang":"node","keep":true}`)
	want := map[string]any{"runtime_id": id, "torn_down": true, "unregistered": []any{}}
	if diff := cmp.Diff(want, w.mustCall("teardown", `{"namespace":null,"runtime_id":"`+id+`"}`)); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	if got, want := w.callError("teardown", `{"runtime_id":"`+id+`"}`), "runtime_not_found: unknown runtime_id "+id; got != want {
		t.Errorf("second teardown: %q, want %q", got, want)
	}
	if left := w.runtimes(); len(left) != 0 {
		t.Errorf("runtimes left: %v", namesOf(left))
	}
}

func namesOf(runtimes []v1alpha1.SandboxRuntime) (names []string) {
	for i := range runtimes {
		names = append(names, metav1.Object(&runtimes[i]).GetName())
	}
	return names
}

// B14: the caller who was told that the VM is gone never finds it again, however
// slow the deletion.
func TestReuse_lossIsToldAfterTheDeletion(t *testing.T) {
	w := newWorld(t)
	id := w.keep(`{"code":"1","lang":"node","keep":true}`)
	again := `{"code":"2","runtime_id":"` + id + `"}`
	refusals := 2
	w.setFault(func(verb string, obj client.Object) error {
		if _, ok := obj.(*v1alpha1.SandboxRuntime); ok && verb == "delete" && refusals > 0 {
			refusals--
			return apierrors.NewInternalError(errors.New("etcd"))
		}
		return nil
	})
	w.results.set(fail(Failure{Code: FailureGone}))
	wantText(t, w.callError("run", again), "expired: ", id)
	wantText(t, w.callError("run", again), "runtime_not_found: unknown runtime_id "+id)
	if refusals != 0 {
		t.Error("the deletion was not repeated")
	}
}
