package shim

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

func TestRegister_outcomes(t *testing.T) {
	const id = "11111111-2222-4333-8444-555555555555"
	stalled := func(reason, message string) func(*world, *v1alpha1.SandboxFunction) {
		return func(w *world, f *v1alpha1.SandboxFunction) {
			w.setCondition(f, v1alpha1.StalledCondition, reason, message)
		}
	}
	cases := map[string]struct {
		act  func(*world, *v1alpha1.SandboxFunction)
		want []string
	}{
		"source does not load": {
			stalled(v1alpha1.SandboxFunctionSourceInvalidReason, "line 3: no handler"), []string{"invalid_request: ", "line 3: no handler"}},
		"id is taken after all": {
			stalled(v1alpha1.SandboxFunctionConflictReason, "owner x"), []string{"invalid_request: ", "already registered"}},
		"spec is invalid": {
			stalled(v1alpha1.InvalidSpecReason, "no such thing"), []string{"invalid_request: no such thing"}},
		"stalled for another reason": {
			stalled("Odd", "VM rt-"+id), []string{"engine: ", "VM (id)"}},
		"no sandbox to be had": {func(w *world, f *v1alpha1.SandboxFunction) {
			w.setCondition(f, "NotReady", v1alpha1.CapacityReason, "cap of 4")
		}, []string{"capacity: cap of 4"}},
		"packages cannot be installed": {func(w *world, f *v1alpha1.SandboxFunction) {
			w.setCondition(f, "NotReady", v1alpha1.SandboxRuntimePackagesFailedReason, "npm: no such package")
		}, []string{"engine: ", "microVM cannot be made", "npm: no such package"}},
		"another team has the namespace": {func(w *world, f *v1alpha1.SandboxFunction) {
			w.setCondition(f, "NotReady", v1alpha1.SandboxFunctionPrefixTakenReason, "spec.functionID: shop:: belongs to namespace team")
		}, []string{"invalid_request: functionID: shop:: belongs to namespace team"}},
		"torn down meanwhile": {func(w *world, f *v1alpha1.SandboxFunction) {
			if err := w.api.Delete(context.Background(), f); err != nil {
				w.t.Error(err)
			}
		}, []string{"engine: ", "register again"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ready := w.onFunction
			w.onFunction = func(f *v1alpha1.SandboxFunction) { tc.act(w, f) }
			wantText(t, w.callError("register_function", registration("shop::price")), tc.want...)
			if left := w.functions(); len(left) != 0 {
				t.Errorf("%d functions left", len(left))
			}
			w.onFunction = ready
			w.mustCall("register_function", registration("shop::price"))
		})
	}
}

func TestRegister_ignoresOlderConditions(t *testing.T) {
	f := &v1alpha1.SandboxFunction{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	f.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	wait := readyWait{now: time.Now}
	if done, err := wait.observe(f); done || err != nil {
		t.Errorf("done %t, error %v", done, err)
	}
}

func TestRegister_waits(t *testing.T) {
	cases := map[string]struct {
		reason string
		step   time.Duration
		want   string
	}{
		"never ready":             {v1alpha1.SandboxFunctionPlantingReason, readyTimeout, "timeout: "},
		"the daemon stays absent": {v1alpha1.DaemonUnavailableReason, daemonGrace, "engine: the sandbox daemon is not there"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			observed := make(chan struct{}, 1)
			w.onFunction = func(f *v1alpha1.SandboxFunction) { w.setCondition(f, "NotReady", tc.reason, "wait") }
			w.shim.Client = observedClient{Client: w.shim.Client, gets: observed}
			failures := make(chan error, 1)
			go func() {
				_, err := w.call(t.Context(), "register_function", registration("shop::price"))
				failures <- err
			}()
			// Once it was read twice, the first reading was judged.
			<-observed
			<-observed
			w.clock.Step(tc.step - time.Millisecond)
			<-observed
			<-observed
			select {
			case err := <-failures:
				t.Fatalf("gave up too early: %v", err)
			default:
			}
			w.clock.Step(time.Millisecond)
			err := drainUntil(observed, failures)
			wantText(t, errorText(t, err), tc.want)
			if left := w.functions(); len(left) != 0 {
				t.Errorf("%d functions left", len(left))
			}
		})
	}
}

func TestRegister_callerGoesAway(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	w.onFunction = func(*v1alpha1.SandboxFunction) { leave() }
	if _, err := w.call(ctx, "register_function", registration("shop::price")); err == nil {
		t.Error("answered although the function was not ready")
	}
	if left := w.functions(); len(left) != 0 {
		t.Errorf("%d functions left", len(left))
	}
}

func TestRegister_creationWithoutAnswer(t *testing.T) {
	w := newWorld(t)
	w.shim.Client = muteClient{w.api}
	wantText(t, w.callError("register_function", registration("shop::price")), "engine: ", "connection reset")
	if left := w.functions(); len(left) != 0 {
		t.Errorf("%d functions left", len(left))
	}
}

func TestRegister_invalidForTheAPIServer(t *testing.T) {
	w := newWorld(t)
	w.setFault(func(string, client.Object) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonInvalid, Message: "SandboxFunction x is invalid",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "functionID has a line break"}, {Message: "and more"}}},
		}}
	})
	if got, want := w.callError("register_function", registration("shop::a\nb")), "invalid_request: functionID has a line break; and more"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

func TestRegister_waitsForTheLeavingOne(t *testing.T) {
	w := newWorld(t)
	leaving := w.shim.newFunction(t.Context(), registerRequest{functionID: "shop::price", language: v1alpha1.LanguageNode}, "shop")
	leaving.Finalizers = []string{v1alpha1.FunctionFinalizer}
	if err := w.api.Create(t.Context(), leaving); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Delete(t.Context(), leaving.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.call(t.Context(), "register_function", registration("shop::price"))
		done <- err
	}()
	eventually(t, "a wait for the leaving function", w.clock.HasWaiters)
	w.release("shop::price")
	if err := <-done; err != nil {
		t.Errorf("registering after the other left: %v", err)
	}
}

func TestRegister_apiServerDown(t *testing.T) {
	w := newWorld(t)
	w.setFault(func(string, client.Object) error {
		return apierrors.NewInternalError(errors.New("etcd"))
	})
	wantText(t, w.callError("register_function", registration("shop::price")), "engine: creating the function", "etcd")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "sandboxfunctions"}, "x", errors.New("no"))
	w.setFault(func(string, client.Object) error { return forbidden })
	wantText(t, w.callError("register_function", registration("shop::price")), "engine: creating the function")
}

func TestRegister_staleCache(t *testing.T) {
	w := newWorld(t)
	w.shim.Client = staleClient{w.api}
	w.mustCall("register_function", registration("shop::price"))
	w.onFunction = func(f *v1alpha1.SandboxFunction) {
		if err := w.api.Delete(context.Background(), f); err != nil {
			w.t.Error(err)
		}
	}
	wantText(t, w.callError("register_function", registration("shop::price")), "already registered")
	wantText(t, w.callError("register_function", registration("shop::tax")), "engine: ", "register again")
}
