package sandboxruntime

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// fitted is a runtime with files, packages and setup commands.
func fitted(obj *sandboxv1alpha1.SandboxRuntime) {
	literal := "hello"
	obj.Spec.Network = sandboxv1alpha1.AccessEnabled
	obj.Spec.Files = []sandboxv1alpha1.File{
		{Path: "/etc/app.conf", Content: &literal},
		{Path: "/etc/token", Mode: "0600", ContentFrom: &sandboxv1alpha1.KeySource{
			SecretKeyRef: &sandboxv1alpha1.KeyReference{Name: "keys", Key: "token"},
		}},
	}
	obj.Spec.Packages = []string{"left-pad@^1.3"}
	obj.Spec.Setup = []string{"make", "make install"}
}

// steps are what was done in the sandboxes, in order, without the agent's own.
func (w *world) steps() []string {
	var steps []string
	for _, call := range w.provider.Calls(fake.WriteFile, fake.Exec) {
		switch {
		case call.Method == fake.WriteFile && strings.HasPrefix(call.Path, "/etc/"):
			steps = append(steps, "write "+call.Path)
		case call.Method == fake.Exec && call.Exec.Argv[1] != wire.CommandInit:
			steps = append(steps, call.Exec.Argv[1])
		}
	}
	return steps
}

func TestPrepare_beforeItTakesCalls(t *testing.T) {
	w := newWorld(t, newRuntime(fitted, withReplicas(1)), theSecret("hunter2"))
	w.provider.OnExec(agentThatRuns(t, func(string) wire.Run {
		if len(w.Table.Instances(w.tableRuntime())) != 0 {
			t.Error("a sandbox that is not prepared takes calls")
		}
		return wire.Run{Stdout: "ok"}
	}))
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	want := []string{"write /etc/app.conf", "write /etc/token", "install", "setup", "setup"}
	if diff := cmp.Diff(want, w.steps()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if token, _ := w.provider.File(w.sandboxes()[0].ID, "/etc/token"); string(token) != "hunter2" {
		t.Errorf("the file from the Secret holds %q", token)
	}
	if obj := w.get(); strings.Contains(fmt.Sprint(obj), "hunter2") {
		t.Errorf("the object shows the Secret: %+v", obj)
	}
}

func TestPrepare_eachNewSandbox(t *testing.T) {
	w := newWorld(t, newRuntime(fitted, withReplicas(2)), theSecret("hunter2"))
	w.settle()
	if got := len(w.steps()); got != 10 {
		t.Errorf("two sandboxes took %d steps, want 10", got)
	}
	w.provider.Lose(w.sandboxes()[0].ID)
	w.clock.Step(time.Second)
	w.settle()
	if got := len(w.steps()); got != 15 {
		t.Errorf("three sandboxes took %d steps, want 15", got)
	}
}

func TestPrepare_failures(t *testing.T) {
	fails := func(command string, outcome wire.Run) func(w *world) {
		return func(w *world) {
			w.provider.OnExec(agentThatRuns(w.t, func(c string) wire.Run {
				if c == command {
					return outcome
				}
				return wire.Run{}
			}))
		}
	}
	for name, tc := range map[string]struct {
		fail       func(w *world)
		wantReason string
		wantTexts  []string
	}{
		"a file": {
			func(w *world) {
				w.provider.FailNext(fake.WriteFile, nil, sandbox.NewFileError("/etc/app.conf", "S213: is a folder"))
			},
			sandboxv1alpha1.SandboxRuntimeFilesFailedReason, []string{"spec.files /etc/app.conf", "S213: is a folder"},
		},
		"the packages": {
			fails("install left-pad@^1.3", wire.Run{ExitCode: 1, Stderr: "404 with hunter2 " + strings.Repeat("x", 2000) + "the end"}),
			sandboxv1alpha1.SandboxRuntimePackagesFailedReason, []string{"spec.packages", "exited with 1", "…", "the end"},
		},
		"a setup command": {
			fails("make install", wire.Run{ExitCode: 2, Stderr: "cannot log in as hunter2"}),
			sandboxv1alpha1.SandboxRuntimeSetupFailedReason,
			[]string{"spec.setup command 2", "exited with 2: cannot log in as [redacted]", "up to 5 minutes"},
		},
		"one that takes too long": {
			fails("make", wire.Run{ExitCode: -1, TimedOut: true}),
			sandboxv1alpha1.SandboxRuntimeSetupFailedReason, []string{"spec.setup command 1", "did not end in time"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(fitted), theSecret("hunter2"))
			tc.fail(w)
			w.reconcile()
			w.reconcile()
			w.wait()
			if result := w.reconcile(); result.RequeueAfter != 10*time.Second {
				t.Errorf("the next try is in %s, want 10 s", result.RequeueAfter)
			}
			w.expectReady(metav1.ConditionFalse, tc.wantReason)
			message := conditions.Find(w.get(), "Ready").Message
			for _, text := range tc.wantTexts {
				if !strings.Contains(message, text) {
					t.Errorf("the message %q lacks %q", message, text)
				}
			}
			if strings.Contains(message, "hunter2") {
				t.Errorf("the message shows a Secret: %s", message)
			}
			if len(w.sandboxes()) != 0 || len(w.get().Status.Instances) != 0 {
				t.Errorf("%d sandboxes are left", len(w.sandboxes()))
			}
		})
	}
}

func TestPrepare_backsOffAndHeals(t *testing.T) {
	w := newWorld(t, newRuntime(fitted), theSecret("hunter2"))
	w.provider.OnExec(agentThatRuns(t, func(command string) wire.Run {
		if command == "make" {
			return wire.Run{ExitCode: 1}
		}
		return wire.Run{}
	}))
	w.reconcile()
	var delays []time.Duration
	for range 7 {
		w.reconcile()
		w.wait()
		w.reconcile()
		left := w.memory.get(objectUID).failure.retryAt.Sub(w.clock.Now())
		delays = append(delays, left)
		w.clock.Step(left)
	}
	s := time.Second
	want := []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}
	if diff := cmp.Diff(want, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Setup = []string{"true"} })
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
}

func TestPrepare_lostMeanwhileBlamesNobody(t *testing.T) {
	w := newWorld(t, newRuntime(fitted), theSecret("hunter2"))
	w.reconcile()
	w.provider.FailNext(fake.WriteFile, nil, sandbox.NewNotFoundError())
	w.reconcile()
	w.wait()
	if result := w.reconcile(); result.RequeueAfter != 500*time.Millisecond {
		t.Errorf("the next try is in %s", result.RequeueAfter)
	}
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimeBootFailedReason)
}

func TestPrepare_keptRuntimeTellsItsCaller(t *testing.T) {
	w := newWorld(t, newRuntime(fitted, keptByTheBus), theSecret("hunter2"))
	w.provider.OnExec(agentThatRuns(t, func(string) wire.Run { return wire.Run{ExitCode: 1, Stderr: "no hunter2"} }))
	told := make(chan error, 1)
	go func() {
		_, err := w.Table.Acquire(t.Context(), w.tableRuntime(), "")
		told <- err
	}()
	eventually(t, "the run to wait", func() bool { return w.Table.Activity(w.tableRuntime()).Wanted })
	w.settle()
	select {
	case err := <-told:
		if !strings.Contains(err.Error(), "packages left-pad@^1.3: exited with 1: no [redacted]") {
			t.Errorf("the run is told %v", err)
		}
	default:
		t.Error("the run still waits")
	}
}

func TestPrepare_isCancelled(t *testing.T) {
	w := newWorld(t, newRuntime(fitted), theSecret("hunter2"))
	running := make(chan struct{})
	w.provider.OnExec(agentThatRuns(t, func(string) wire.Run {
		running <- struct{}{}
		<-running
		return wire.Run{}
	}))
	w.reconcile()
	w.reconcile()
	<-running
	w.edit(suspended)
	w.reconcile()
	close(running)
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.SuspendedReason)
	if len(w.sandboxes()) != 0 {
		t.Errorf("%d sandboxes are left", len(w.sandboxes()))
	}
}

func TestTemplate_invalidSpecs(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(obj *sandboxv1alpha1.SandboxRuntime)
		want   string
	}{
		"a package that is no package": {
			func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Packages = []string{"./here"} }, "spec.packages[0]: ",
		},
		"a file that is too large in bytes": {
			func(obj *sandboxv1alpha1.SandboxRuntime) {
				content := strings.Repeat("é", 32<<10)
				obj.Spec.Files = []sandboxv1alpha1.File{{Path: "/a", Content: &content}}
			}, "spec.files /a: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(tc.change))
			w.settle()
			w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.InvalidSpecReason)
			obj := w.get()
			if message := conditions.Find(obj, "Ready").Message; !strings.HasPrefix(message, tc.want) || w.creates() != 0 {
				t.Errorf("the message is %q after %d creates", message, w.creates())
			}
			if !conditions.IsTrue(obj, sandboxv1alpha1.StalledCondition) {
				t.Error("it is not stalled")
			}
			w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Packages, obj.Spec.Files = nil, nil })
			w.settle()
			w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		})
	}
}

func TestTemplate_digest(t *testing.T) {
	digest := func(key, token string, change ...func(*sandboxv1alpha1.SandboxRuntime)) string {
		w := newWorld(t, newRuntime(append(change, fitted)...), theSecret(token))
		w.DigestKey = []byte(key)
		w.settle()
		return w.get().Status.Instances[0].TemplateDigest
	}
	base := digest("k", "hunter2")
	if again := digest("k", "hunter2"); again != base {
		t.Errorf("the same template is named %s and %s", base, again)
	}
	timeout := int32(77)
	if idle := digest("k", "hunter2", func(obj *sandboxv1alpha1.SandboxRuntime) {
		obj.Spec.Idle = &sandboxv1alpha1.IdlePolicy{TimeoutSeconds: &timeout}
	}); idle != base {
		t.Error("another idle time makes another template")
	}
	others := map[string]string{
		"another Secret": digest("k", "hunter3"), "another key of the operator": digest("l", "hunter2"),
		"another image": digest("k", "hunter2", func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Image = "other" }),
	}
	var all []string
	for name, other := range others {
		if other == base || slices.Contains(all, other) {
			t.Errorf("%s makes no other template", name)
		}
		all = append(all, other)
	}
}

func TestTemplate_looksAtSecrets(t *testing.T) {
	w := newWorld(t, newRuntime(fitted, func(obj *sandboxv1alpha1.SandboxRuntime) {
		obj.Spec.Idle = &sandboxv1alpha1.IdlePolicy{Action: sandboxv1alpha1.IdleKeep}
	}), theSecret("hunter2"))
	if result := w.settle(); result.RequeueAfter < 50*time.Second || result.RequeueAfter > 60*time.Second {
		t.Errorf("the Secret is looked at again in %s", result.RequeueAfter)
	}
	if err := w.api.Update(t.Context(), theSecret("hunter3")); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	infos := w.sandboxes()
	if token, _ := w.provider.File(infos[0].ID, "/etc/token"); len(infos) != 1 || string(token) != "hunter3" {
		t.Errorf("%d sandboxes, the file holds %q", len(infos), token)
	}
}
