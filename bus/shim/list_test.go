package shim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// listed are the rows of list_runtimes.
func (w *world) listed(caller string) (rows []map[string]any) {
	w.t.Helper()
	response := w.mustCall("list_runtimes", map[string]any{"_caller_worker_id": caller, "extra": []int{1}})
	for _, row := range response["runtimes"].([]any) {
		rows = append(rows, row.(map[string]any))
	}
	return rows
}

func TestList_nothing(t *testing.T) {
	w := newWorld(t)
	w.mustCall("run", `{"code":"1","lang":"node"}`)
	kubectl := &v1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "kubectl"},
		Spec:       v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguageNode},
	}
	if err := w.api.Create(t.Context(), kubectl); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"runtimes": []any{}}, w.mustCall("list_runtimes", `{}`)); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	begin := float64(w.clock.Now().UnixMilli())
	for _, id := range []string{"shop::z", "shop::a"} {
		w.mustCall("register_function", registration(id))
		w.clock.Step(time.Millisecond)
	}
	w.clock.Step(time.Second)
	w.mustCall("register_function", registration("own::f", "packages", []string{"left-pad"}))
	w.clock.Step(time.Second)
	w.keep(`{"code":"1","lang":"python","keep":true}`)
	w.clock.Step(20 * time.Millisecond)
	w.keep(`{"code":"1","lang":"node","keep":true}`)

	rows := w.listed("")
	references := map[any]bool{}
	for _, row := range rows {
		references[row["reference"]] = true
		delete(row, "reference")
	}
	want := []map[string]any{
		{"lang": "node", "created_at_ms": begin + 2022, "registered_functions": []any{}},
		{"lang": "python", "created_at_ms": begin + 2002, "registered_functions": []any{}},
		{"lang": "node", "created_at_ms": begin + 1002, "registered_functions": []any{"own::f"}, "namespace": "own::"},
		{"lang": "node", "created_at_ms": begin, "registered_functions": []any{"shop::z", "shop::a"}, "namespace": "shop::"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if len(references) != len(rows) {
		t.Errorf("%d references for %d runtimes", len(references), len(rows))
	}
	again := w.listed("")
	if !references[again[0]["reference"]] || !matches(t, schemaOf("list_runtimes.response"), string(mustJSON(t, map[string]any{"runtimes": again}))) {
		t.Errorf("rows %v", again)
	}
}

func TestList_capabilities(t *testing.T) {
	for name, open := range map[string]bool{"for their maker only": false, "for everybody": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.OpenCapabilities = open })
			id := w.keep(`{"code":"1","lang":"node","keep":true,"_caller_worker_id":"w1"}`)
			w.fleet.set(running(w.clock.Now().Add(time.Minute), &w.runtimes()[0]))
			if row := w.listed("w1")[0]; row["runtime_id"] != id {
				t.Errorf("the maker sees %v", row)
			}
			for _, caller := range []string{"w2", ""} {
				row := w.listed(caller)[0]
				if sees := row["runtime_id"] == id && row["sandbox_id"] == "sb-secret"; sees != open {
					t.Errorf("caller %q sees %v", caller, row)
				}
				if !open && (row["runtime_id"] != nil || row["sandbox_id"] != nil) {
					t.Errorf("caller %q sees %v", caller, row)
				}
			}
			// Another process knows no id, whoever asks.
			w.shim.ids = heldIDs{}
			if row := w.listed("w1")[0]; row["runtime_id"] != nil {
				t.Errorf("after a restart the maker sees %v", row)
			}
			w.mustCall("run", `{"code":"2","runtime_id":"`+id+`","_caller_worker_id":"w1"}`)
			if row := w.listed("w1")[0]; (row["runtime_id"] == id) != open {
				t.Errorf("after its use the maker sees %v", row)
			}
			w.mustCall("teardown", `{"runtime_id":"`+id+`"}`)
			if rows := w.listed("w1"); len(rows) != 0 {
				t.Errorf("after teardown there is %v", rows)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	w := newWorld(t)
	w.keep(`{"code":"1","lang":"node","keep":true,"_caller_worker_id":"w1"}`)
	w.mustCall("register_function", registration("shop::a", "_caller_worker_id", "w1"))
	owners := []string{
		w.results.all()[0].owner, w.functions()[0].Annotations[ownerAnnotation],
	}
	for _, runtime := range w.runtimes() {
		if isKept(&runtime) {
			owners = append(owners, runtime.Annotations[ownerAnnotation])
		}
	}
	want := digestOf("w1")
	if diff := cmp.Diff([]string{want, want, want}, owners); diff != "" || strings.Contains(want, "w1") {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

// running is a reading in which the runtimes have a sandbox.
func running(at time.Time, runtimes ...*v1alpha1.SandboxRuntime) fleet.Snapshot {
	snapshot := fleet.Snapshot{Time: at, Available: true, Ours: map[string][]fleet.Instance{}}
	for _, runtime := range runtimes {
		info := sandbox.Info{ID: sandbox.NewID("sb-secret")}
		snapshot.All = append(snapshot.All, info)
		snapshot.Ours[string(runtime.UID)] = []fleet.Instance{{Info: info}}
	}
	return snapshot
}

func TestList_vmGone(t *testing.T) {
	w := newWorld(t)
	w.keep(`{"code":"1","lang":"node","keep":true}`)
	made, runtime := w.clock.Now(), w.runtimes()[0]
	later := made.Add(time.Minute)
	failing := running(later, &runtime)
	failing.Err = errors.New("hiccup")
	rebooted := func() {
		runtime.Status.Instances = []v1alpha1.InstanceStatus{{Name: "0", CreatedAt: metav1.NewTime(later)}}
		if err := w.api.Status().Update(t.Context(), &runtime); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name     string
		snapshot fleet.Snapshot
		arrange  func()
		want     any
	}{
		{"no reading yet", fleet.Snapshot{}, nil, nil},
		{"listed", running(later, &runtime), nil, false},
		{"listed before it was made", running(made), nil, nil},
		{"not listed", running(later), nil, true},
		{"the daemon cannot be read", failing, nil, nil},
		{"not listed, but booted anew since", running(later), rebooted, nil},
	} {
		w.fleet.set(tc.snapshot)
		if tc.arrange != nil {
			tc.arrange()
		}
		if got := w.listed("")[0]["vm_gone"]; got != tc.want {
			t.Errorf("%s: vm_gone is %v, want %v", tc.name, got, tc.want)
		}
	}
	// A stopped sandbox is not among ours: sandbox/fleet leaves it out.
}
