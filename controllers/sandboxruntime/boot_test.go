package sandboxruntime

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func TestBoot_announcesBeforeItCreates(t *testing.T) {
	w := newWorld(t, newRuntime(withReplicas(2)))
	w.provider.onCreate = func(req sandbox.CreateRequest) {
		status := w.get().Status
		announced := false
		for _, i := range status.Instances {
			announced = announced || i.Digest == nonceDigest(req.Marker.Nonce) && i.State == sandboxv1alpha1.InstanceBooting
		}
		if !announced {
			t.Errorf("a create was asked for whose nonce the status does not know: %+v", status.Instances)
		}
	}
	w.reconcile()
	if obj := w.get(); len(obj.Finalizers) != 1 || w.creates() != 0 || len(obj.Status.Instances) != 0 {
		t.Errorf("the first look did more than adding the finalizer: %+v", obj)
	}
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if got := w.states(); got != "0:ready 1:ready" || len(w.sandboxes()) != 2 {
		t.Errorf("instances are %s in %d sandboxes", got, len(w.sandboxes()))
	}
	if got := w.Table.Instances(w.tableRuntime()); len(got) != 2 || got[0].Slots != fake.ExecSlots {
		t.Errorf("the table has %+v", got)
	}
	for _, info := range w.sandboxes() {
		marker, err := sandbox.ParseMarker(info.Name)
		if err != nil || marker.Operator != operatorID || marker.Object != objectUID {
			t.Errorf("a sandbox is marked %s: %v", info.Name, err)
		}
	}
}

func TestBoot_request(t *testing.T) {
	obj := newRuntime(withSecret)
	obj.Spec.Network, obj.Spec.BusAccess = sandboxv1alpha1.AccessEnabled, sandboxv1alpha1.AccessEnabled
	w := newWorld(t, obj, theSecret("s3cret"))
	w.settle()
	got := w.provider.Calls(fake.Create)[0].Create
	status := w.get().Status.Instances[0]
	if guest := credentialIn(t, got.Env["III_URL"]); guest.UID != objectUID || guest.Instance != status.Digest {
		t.Errorf("the credential is that of %+v", guest)
	}
	got.Marker = sandbox.Marker{}
	delete(got.Env, "III_URL")
	want := sandbox.CreateRequest{
		Image: "node", Network: true, IdleTimeout: idleTime + 600*time.Second,
		Env: map[string]string{"TOKEN": "s3cret", "OTEL_ENABLED": "false"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
	if w.expectReady(metav1.ConditionTrue, "Ready"); strings.Contains(w.get().Status.Instances[0].TemplateDigest, "s3cret") {
		t.Error("the template shows the secret")
	}
}

func TestBoot_telemetryIsTheUsersChoice(t *testing.T) {
	fromSecret := &sandboxv1alpha1.KeySource{SecretKeyRef: &sandboxv1alpha1.KeyReference{Name: "keys", Key: "token"}}
	for name, tc := range map[string]struct {
		env  []sandboxv1alpha1.EnvVar
		want string
	}{
		"off by default":     {nil, "false"},
		"on":                 {[]sandboxv1alpha1.EnvVar{{Name: "OTEL_ENABLED", Value: ptr.To("true")}}, "true"},
		"without a value":    {[]sandboxv1alpha1.EnvVar{{Name: "OTEL_ENABLED", Value: ptr.To("")}}, ""},
		"taken from a key":   {[]sandboxv1alpha1.EnvVar{{Name: "OTEL_ENABLED", ValueFrom: fromSecret}}, "yes"},
		"another's variable": {[]sandboxv1alpha1.EnvVar{{Name: "OTEL_SERVICE_NAME", Value: ptr.To("x")}}, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Env = tc.env }), theSecret("yes"))
			w.settle()
			if got := w.provider.Calls(fake.Create)[0].Create.Env["OTEL_ENABLED"]; got != tc.want {
				t.Errorf("OTEL_ENABLED is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestBoot_unwrittenAnnouncementCreatesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		wantErr bool
	}{
		"a conflict is quiet": {err: apierrors.NewConflict(schema.GroupResource{}, "shop", errors.New("stale"))},
		"a refusal is not":    {err: errors.New("connection refused"), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime())
			w.reconcile()
			w.failWrites = []error{tc.err}
			result, err := w.Reconcile(t.Context(), requestOf(objectKey))
			if (err != nil) != tc.wantErr || !tc.wantErr && result.RequeueAfter == 0 {
				t.Errorf("the result is %+v, %v", result, err)
			}
			if w.wait(); w.creates() != 0 {
				t.Error("a sandbox was made that no status announces")
			}
			w.settle()
			w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
			if w.creates() != 1 {
				t.Errorf("%d creates, want one", w.creates())
			}
		})
	}
}

func TestBoot_failures(t *testing.T) {
	transient := sandbox.NewTransientError("S300", "boot failed")
	for name, tc := range map[string]struct {
		fail       func(w *world)
		wantReason string
		wantText   string
	}{
		"no room": {
			func(w *world) { w.provider.NextCreateErr(sandbox.NewCapacityError("8 of 8")) },
			sandboxv1alpha1.CapacityReason, "takes no further sandbox",
		},
		"a daemon that does not answer": {
			func(w *world) { w.provider.NextCreateErr(sandbox.NewUnavailableError(errors.New("not connected"))) },
			sandboxv1alpha1.DaemonUnavailableReason, "did not answer",
		},
		"an answer that was lost": {
			func(w *world) { w.provider.NextCreateErr(sandbox.NewUnknownOutcomeError(errors.New("lost"))) },
			sandboxv1alpha1.DaemonUnavailableReason, "did not answer",
		},
		"a boot that failed": {
			func(w *world) { w.provider.NextCreateErr(transient) },
			sandboxv1alpha1.SandboxRuntimeBootFailedReason, "S300: boot failed",
		},
		"an agent that refuses": {
			func(w *world) { w.provider.NextExecErr(wire.Failf(wire.Internal, "read-only root")) },
			sandboxv1alpha1.SandboxRuntimeGuestFailedReason, "read-only root",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime())
			w.reconcile()
			tc.fail(w)
			w.reconcile()
			first := w.get().Status.Instances[0].Digest
			w.wait()
			if result := w.reconcile(); result.RequeueAfter != 500*time.Millisecond {
				t.Errorf("the next try is in %s, want 0.5 s", result.RequeueAfter)
			}
			w.expectReady(metav1.ConditionFalse, tc.wantReason)
			obj := w.get()
			if message := conditions.Find(obj, "Ready").Message; !strings.Contains(message, tc.wantText) {
				t.Errorf("the message is %q", message)
			}
			if len(obj.Status.Instances) != 0 || len(w.sandboxes()) != 0 {
				t.Errorf("left are %+v and %d sandboxes", obj.Status.Instances, len(w.sandboxes()))
			}
			// Whoever wakes it early, as callers do, makes no further attempt.
			version, creates := obj.ResourceVersion, w.creates()
			for range 3 {
				w.reconcile()
				w.wait()
			}
			if got := w.get().ResourceVersion; got != version || w.creates() != creates {
				t.Errorf("looking early wrote (%t) or created (%d)", got != version, w.creates()-creates)
			}
			w.clock.Step(time.Second)
			w.reconcile()
			if second := w.get().Status.Instances[0].Digest; second == first {
				t.Error("the second attempt has the nonce of the first")
			}
			w.expectReady(metav1.ConditionFalse, tc.wantReason)
			w.settle()
			w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		})
	}
}

func TestBoot_backsOff(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.reconcile()
	var delays []time.Duration
	for range 10 {
		w.provider.NextCreateErr(sandbox.NewCapacityError("full"))
		w.reconcile()
		w.wait()
		delay := w.reconcile().RequeueAfter
		delays = append(delays, delay)
		w.clock.Step(delay)
	}
	s := time.Second
	want := []time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 60 * s}
	if diff := cmp.Diff(want, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
}

func TestBoot_rejections(t *testing.T) {
	stall := func(t *testing.T, w *world, err error) {
		t.Helper()
		w.reconcile()
		w.provider.NextCreateErr(err)
		w.settle()
		if !conditions.IsTrue(w.get(), sandboxv1alpha1.StalledCondition) || w.get().Status.ObservedGeneration != 1 {
			t.Fatalf("it is not stalled: %+v", w.get().Status)
		}
		w.clock.Step(time.Hour)
		if w.settle(); w.creates() != 1 {
			t.Errorf("%d creates while stalled", w.creates())
		}
	}
	unknown := sandbox.NewRejectedError("S100", "no such image")
	for name, heal := range map[string]func(w *world){
		"another image": func(w *world) {
			w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Image = "other" })
		},
		"any change of the spec": func(w *world) {
			w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Idle = &sandboxv1alpha1.IdlePolicy{} })
		},
		"a request": func(w *world) {
			obj := w.get()
			obj.Annotations = map[string]string{sandboxv1alpha1.ReconcileRequestAnnotation: "now"}
			if err := w.api.Update(w.t.Context(), obj); err != nil {
				w.t.Fatal(err)
			}
		},
		"a daemon that comes back": func(w *world) { w.daemonAway(); w.reconcile() },
	} {
		t.Run("heal by "+name, func(t *testing.T) {
			w := newWorld(t, newRuntime())
			stall(t, w, unknown)
			w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimeImageRejectedReason)
			heal(w)
			w.settle()
			w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		})
	}
	t.Run("show no secret", func(t *testing.T) {
		w := newWorld(t, newRuntime(withSecret), theSecret("s3cret-value"))
		stall(t, w, sandbox.NewRejectedError("S001", `env TOKEN="s3cret-value" is bad`))
		w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.InvalidSpecReason)
		if message := conditions.Find(w.get(), "Ready").Message; !strings.Contains(message, `TOKEN="[redacted]"`) {
			t.Errorf("the message is %q", message)
		}
	})
}

func TestBoot_failureOfOneKeepsTheOthers(t *testing.T) {
	w := newWorld(t, newRuntime())
	w.settle()
	w.edit(withReplicas(2))
	for range 20 {
		w.provider.NextCreateErr(sandbox.NewCapacityError("full"))
	}
	w.settle()
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.CapacityReason)
	if got := w.states(); got != "0:ready" || len(w.Table.Instances(w.tableRuntime())) != 1 {
		t.Errorf("instances are %s", got)
	}
	// Its lease is renewed all the same.
	before := len(w.provider.Calls(fake.Touch))
	w.clock.Step(renewEvery)
	w.settle()
	if got := len(w.provider.Calls(fake.Touch)); got != before+1 {
		t.Errorf("the lease was renewed %d times, want once", got-before)
	}
}

func TestBoot_missingReference(t *testing.T) {
	w := newWorld(t, newRuntime(withSecret))
	if result := w.settle(); result.RequeueAfter == 0 {
		t.Error("nobody looks for the Secret again")
	}
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.ReferenceNotFoundReason)
	if got := conditions.Find(w.get(), "Ready").Message; got != `spec.env TOKEN: Secret "keys" does not exist` || w.creates() != 0 {
		t.Errorf("the message is %q after %d creates", got, w.creates())
	}
	if err := w.api.Create(t.Context(), theSecret("first")); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)

	// The Secret goes: what runs goes on, and its lease is renewed.
	if err := w.api.Delete(t.Context(), theSecret("")); err != nil {
		t.Fatal(err)
	}
	before := len(w.provider.Calls(fake.Touch))
	w.clock.Step(renewEvery)
	w.settle()
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.ReferenceNotFoundReason)
	if len(w.sandboxes()) != 1 || len(w.provider.Calls(fake.Touch)) != before+1 {
		t.Errorf("%d sandboxes, %d renewals", len(w.sandboxes()), len(w.provider.Calls(fake.Touch))-before)
	}

	// Another value rolls the sandboxes over.
	if err := w.api.Create(t.Context(), theSecret("second")); err != nil {
		t.Fatal(err)
	}
	w.settle()
	creates := w.provider.Calls(fake.Create)
	if last := creates[len(creates)-1].Create.Env["TOKEN"]; last != "second" || len(w.sandboxes()) != 1 {
		t.Errorf("the last sandbox of %d was made with %s", len(w.sandboxes()), last)
	}
}
