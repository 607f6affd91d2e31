package sandboxrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// answers makes programs end like this.
func answers(reply wire.Reply) {
	stack.Guest.OnRun(func(context.Context, wire.RunRequest) (wire.Reply, error) { return reply, nil })
}

// hangs makes programs run until they are ended, and counts them.
func hangs() *atomic.Int32 {
	var begun atomic.Int32
	stack.Guest.OnRun(func(ctx context.Context, _ wire.RunRequest) (wire.Reply, error) {
		begun.Add(1)
		<-ctx.Done()
		return wire.Reply{}, sandbox.NewUnavailableError(ctx.Err())
	})
	return &begun
}

// withSecret gives the program a value of the Secret s.
func withSecret(r *v1alpha1.SandboxRun) {
	r.Spec.Env = []v1alpha1.EnvVar{{Name: "KEY", ValueFrom: &v1alpha1.KeySource{
		SecretKeyRef: &v1alpha1.KeyReference{Name: "s", Key: "key"},
	}}}
}

var _ = Describe("A run", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx) })

	It("runs the program once, in a sandbox of its own that goes with it", func(ctx SpecContext) {
		var seen atomic.Pointer[wire.RunRequest]
		stack.Guest.OnRun(func(_ context.Context, r wire.RunRequest) (wire.Reply, error) {
			seen.Store(&r)
			return wire.Reply{Run: &wire.Run{Stdout: "out", Stderr: "err"}, Result: json.RawMessage(`{"a":1}`)}, nil
		})
		run := newRun("once", func(r *v1alpha1.SandboxRun) {
			r.Spec.Stdin, r.Spec.Args, r.Spec.TimeoutMilliseconds = "in", []string{"x"}, ptr.To[int32](1234)
			r.Spec.Env = []v1alpha1.EnvVar{{Name: "KEY", Value: ptr.To("value")}}
		})
		create(ctx, run)
		succeeds(ctx, run)
		Expect(*run.Status.ExitCode).To(BeZero())
		Expect(*run.Status.Success).To(BeTrue())
		Expect([]string{run.Status.Stdout, run.Status.Stderr, string(run.Status.Result.Raw)}).To(Equal([]string{"out", "err", `{"a":1}`}))
		Expect(run.Status.Truncated).To(BeFalse())
		Expect(run.Status.AttemptDigest).To(HaveLen(64))

		got := seen.Load()
		Expect(got.Source).To(Equal("console.log('done')"))
		Expect([]string{string(got.Stdin), got.Args[0], got.Env["KEY"]}).To(Equal([]string{"in", "x", "value"}))
		Expect(got.TimeoutMs).To(BeEquivalentTo(1234))
		Expect(stack.Provider.Calls(fake.Create)).To(HaveLen(1))
		Expect(sandboxes(ctx)).To(BeZero())
	})

	It("waits for its ConfigMap", func(ctx SpecContext) {
		run := newRun("late", func(r *v1alpha1.SandboxRun) {
			r.Spec.Source = v1alpha1.RunSource{ConfigMapKeyRef: &v1alpha1.KeyReference{Name: "code", Key: "main"}}
		})
		create(ctx, run)
		eventually(ctx, run, v1alpha1.ReferenceNotFoundReason)
		Expect(run.Status.Phase).To(Equal(v1alpha1.RunPending))
		Expect(stack.Provider.Calls(fake.Create)).To(BeEmpty())
		create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "code"}, Data: map[string]string{"main": "1"},
		})
		succeeds(ctx, run)
	})

	It("fails with the program's exit code", func(ctx SpecContext) {
		answers(wire.Reply{Run: &wire.Run{Stderr: "bad", ExitCode: 3}})
		run := newRun("three")
		create(ctx, run)
		fails(ctx, run, v1alpha1.SandboxRunExitCodeReason)
		Expect(*run.Status.ExitCode).To(BeEquivalentTo(3))
		Expect(*run.Status.Success).To(BeFalse())
		Expect(run.Status.Stderr).To(Equal("bad"))
	})

	It("fails at its deadline and shows what was printed until then", func(ctx SpecContext) {
		answers(wire.Reply{Run: &wire.Run{Stdout: "half", ExitCode: -1, TimedOut: true}})
		run := newRun("slow")
		create(ctx, run)
		fails(ctx, run, v1alpha1.SandboxRunTimeoutReason)
		Expect(run.Status.Stdout).To(Equal("half"))
		Expect(run.Status.ExitCode).To(BeNil())
	})

	It("fails when its sandbox is lost", func(ctx SpecContext) {
		stack.Guest.OnRun(func(context.Context, wire.RunRequest) (wire.Reply, error) {
			return wire.Reply{}, sandbox.NewTransientError("S300", "the guest has ended")
		})
		run := newRun("lost")
		create(ctx, run)
		fails(ctx, run, v1alpha1.SandboxRunSandboxFailedReason)
	})

	It("is cancelled before it begins", func(ctx SpecContext) {
		run := newRun("early", func(r *v1alpha1.SandboxRun) { r.Spec.Cancel = true })
		create(ctx, run)
		fails(ctx, run, v1alpha1.SandboxRunCancelledReason)
		Expect(stack.Provider.Calls(fake.Create)).To(BeEmpty())
	})

	It("is cancelled while it runs, and its sandbox stops", func(ctx SpecContext) {
		begun := hangs()
		run := newRun("long")
		create(ctx, run)
		Eventually(begun.Load).Should(BeEquivalentTo(1))
		change(ctx, run, func() { run.Spec.Cancel = true })
		fails(ctx, run, v1alpha1.SandboxRunCancelledReason)
		Expect(sandboxes(ctx)).To(BeZero())
	})

	It("says nothing new when it is cancelled after its end, but settles", func(ctx SpecContext) {
		run := newRun("done")
		create(ctx, run)
		succeeds(ctx, run)
		change(ctx, run, func() { run.Spec.Cancel = true })
		Eventually(func() int64 { reason(ctx, run); return run.Status.ObservedGeneration }).Should(Equal(run.Generation))
		succeeds(ctx, run)
	})

	It("that is deleted while it runs takes its sandbox with it", func(ctx SpecContext) {
		begun := hangs()
		run := newRun("long")
		create(ctx, run)
		Eventually(begun.Load).Should(BeEquivalentTo(1))
		Expect(stack.Client.Delete(ctx, run)).To(Succeed())
		Eventually(sandboxes).WithArguments(ctx).Should(BeZero())
		Expect(stack.Provider.Calls(fake.Stop)).NotTo(BeEmpty())
	})

	It("that is deleted ends its program although a finalizer holds it", func(ctx SpecContext) {
		begun := hangs()
		run := newRun("held", func(r *v1alpha1.SandboxRun) { r.Finalizers = []string{"example.com/hold"} })
		create(ctx, run)
		Eventually(begun.Load).Should(BeEquivalentTo(1))
		Expect(stack.Client.Delete(ctx, run)).To(Succeed())
		Eventually(sandboxes).WithArguments(ctx).Should(BeZero())
		change(ctx, run, func() { run.Finalizers = nil })
	})

	It("waits for capacity", func(ctx SpecContext) {
		stack.Provider.FailNext(fake.Create, sandbox.NewCapacityError("full"))
		run := newRun("patient")
		create(ctx, run)
		succeeds(ctx, run)
		Expect(stack.Provider.Calls(fake.Create)).To(HaveLen(2))
	})

	It("of a bus caller does not wait for capacity", func(ctx SpecContext) {
		stack.Provider.FailNext(fake.Create, sandbox.NewCapacityError("full"))
		run := newRun("hasty", fromBus)
		create(ctx, run)
		fails(ctx, run, v1alpha1.CapacityReason)
		Expect(stack.Provider.Calls(fake.Create)).To(HaveLen(1))
	})

	It("that a restart interrupts is not repeated", func(ctx SpecContext) {
		begun := hangs()
		run := newRun("long")
		create(ctx, run)
		Eventually(begun.Load).Should(BeEquivalentTo(1))
		Expect(stack.StopOperator()).To(Succeed())
		Expect(stack.StartOperator(ctx)).To(Succeed())
		fails(ctx, run, v1alpha1.SandboxRunInterruptedReason)
		Expect(begun.Load()).To(BeEquivalentTo(1))
		Eventually(sandboxes).WithArguments(ctx).Should(BeZero())
	})

	It("that has ended is not written again, not by the next process either", func(ctx SpecContext) {
		run := newRun("done")
		create(ctx, run)
		succeeds(ctx, run)
		version := run.ResourceVersion
		Expect(stack.StopOperator()).To(Succeed())
		Expect(stack.StartOperator(ctx)).To(Succeed())
		next := newRun("next")
		create(ctx, next)
		succeeds(ctx, next)
		succeeds(ctx, run)
		Expect(run.ResourceVersion).To(Equal(version))
	})

	It("with transient code that nobody has fails", func(ctx SpecContext) {
		run := newRun("lost", fromBus, func(r *v1alpha1.SandboxRun) {
			r.Spec.Source = v1alpha1.RunSource{Transient: &v1alpha1.TransientSource{SHA256: strings.Repeat("0", 64)}}
		})
		create(ctx, run)
		fails(ctx, run, v1alpha1.SandboxRunSourceLostReason)
		Expect(stack.Provider.Calls(fake.Create)).To(BeEmpty())
	})

	It("keeps its status within bounds, and says so", func(ctx SpecContext) {
		big := strings.Repeat("ä", 200<<10)
		result, err := json.Marshal(strings.Repeat("r", v1alpha1.MaxStatusResultBytes))
		Expect(err).NotTo(HaveOccurred())
		answers(wire.Reply{Run: &wire.Run{Stdout: big[:300<<10], Stderr: big[:100<<10]}, Result: result})
		run := newRun("big")
		create(ctx, run)
		succeeds(ctx, run)
		Expect(run.Status.Truncated).To(BeTrue())
		Expect(len(run.Status.Stdout)).To(BeNumerically("<=", v1alpha1.MaxStatusStreamBytes))
		Expect(len(run.Status.Stderr)).To(BeNumerically("<=", v1alpha1.MaxStatusStreamBytes))
		Expect(run.Status.Stdout).To(HaveSuffix("ää"))
		Expect(run.Status.Result).To(BeNil())
	})

	It("ends also with a result that the API server could not store", func(ctx SpecContext) {
		answers(wire.Reply{Run: &wire.Run{}, Result: json.RawMessage(`1e999`)})
		run := newRun("huge")
		create(ctx, run)
		succeeds(ctx, run)
		Expect(run.Status.Truncated).To(BeTrue())
	})

	It("shows no value of a Secret", func(ctx SpecContext) {
		create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "s"}, StringData: map[string]string{"key": "1234\"5"},
		})
		stack.Guest.OnRun(func(_ context.Context, r wire.RunRequest) (wire.Reply, error) {
			secret := r.Env["KEY"]
			result, err := json.Marshal(map[string]string{"leak": secret})
			return wire.Reply{Run: &wire.Run{Stdout: "a " + secret + " b", Stderr: secret}, Result: result}, err
		})
		run := newRun("leaky", withSecret)
		create(ctx, run)
		succeeds(ctx, run)
		Expect([]string{run.Status.Stdout, run.Status.Stderr, string(run.Status.Result.Raw)}).
			To(Equal([]string{"a [redacted] b", "[redacted]", `{"leak":"[redacted]"}`}))
	})

	It("shows no value of a Secret in what went wrong either", func(ctx SpecContext) {
		create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "s"}, StringData: map[string]string{"key": "hunter2"},
		})
		stack.Guest.OnRun(func(_ context.Context, r wire.RunRequest) (wire.Reply, error) {
			return wire.Reply{Error: wire.Failf(wire.Internal, "cannot start with %s", r.Env["KEY"])}, nil
		})
		run := newRun("leaky", withSecret)
		create(ctx, run)
		fails(ctx, run, v1alpha1.SandboxRunSandboxFailedReason)
		for _, c := range run.Status.Conditions {
			Expect(c.Message).To(And(ContainSubstring("[redacted]"), Not(ContainSubstring("hunter2"))), c.Type)
		}
	})

	It("goes when its time has come", func(ctx SpecContext) {
		run := newRun("brief", func(r *v1alpha1.SandboxRun) { r.Spec.TTLSecondsAfterFinished = ptr.To[int32](5) })
		create(ctx, run)
		succeeds(ctx, run)
		Eventually(func() bool {
			return apierrors.IsNotFound(stack.Client.Get(ctx, client.ObjectKeyFromObject(run), run))
		}).Should(BeTrue())
	})
})

var _ = Describe("A run in a SandboxRuntime", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx) })

	inRuntime := func(r *v1alpha1.SandboxRun) {
		r.Spec.Language, r.Spec.RuntimeRef = "", &v1alpha1.LocalReference{Name: "own"}
	}
	runtime := func() *v1alpha1.SandboxRuntime {
		return &v1alpha1.SandboxRuntime{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "own"},
			Spec:       v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguagePython},
		}
	}

	It("waits for it, and uses its sandbox", func(ctx SpecContext) {
		first := newRun("first", inRuntime)
		create(ctx, first)
		eventually(ctx, first, v1alpha1.ReferenceNotFoundReason)
		create(ctx, runtime())
		succeeds(ctx, first)
		second := newRun("second", inRuntime)
		create(ctx, second)
		succeeds(ctx, second)
		Expect(stack.Provider.Calls(fake.Create)).To(HaveLen(1))
		Expect(sandboxes(ctx)).To(Equal(1))
	})

	It("must have its language, whatever else is missing", func(ctx SpecContext) {
		create(ctx, runtime())
		run := newRun("mixed", inRuntime, func(r *v1alpha1.SandboxRun) {
			r.Spec.Language = v1alpha1.LanguageNode
			r.Spec.Env = []v1alpha1.EnvVar{{Name: "KEY", ValueFrom: &v1alpha1.KeySource{
				SecretKeyRef: &v1alpha1.KeyReference{Name: "missing", Key: "key"},
			}}}
		})
		create(ctx, run)
		fails(ctx, run, v1alpha1.InvalidSpecReason)
		Expect(conditions.Find(run, v1alpha1.ReadyCondition).Message).To(ContainSubstring("spec.language: Node"))
	})

	It("waits while that is scaled to zero", func(ctx SpecContext) {
		own := runtime()
		own.Spec.Replicas = ptr.To[int32](0)
		create(ctx, own)
		run := newRun("zero", inRuntime)
		create(ctx, run)
		eventually(ctx, run, v1alpha1.SandboxFunctionRuntimeNotReadyReason)
		Expect(run.Status.Phase).To(Equal(v1alpha1.RunPending))
		change(ctx, own, func() { own.Spec.Replicas = ptr.To[int32](1) })
		succeeds(ctx, run)
	})
})

var _ = Describe("A run of a bus caller", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx) })

	It("costs four writes, and its output is in none of them", func(ctx SpecContext) {
		answers(wire.Reply{Run: &wire.Run{Stdout: "whole output"}})
		watcher, err := client.NewWithWatch(environment.Config, client.Options{Scheme: environment.Scheme})
		Expect(err).NotTo(HaveOccurred())
		changes, err := watcher.Watch(ctx, &v1alpha1.SandboxRunList{}, client.InNamespace(stack.Namespace))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(changes.Stop)
		caller := callerOfRuns(ctx)
		type answer struct {
			Stdout string `json:"stdout"`
		}
		got, err := bus.Invoke[answer](ctx, caller, "sandbox-code-runner::run", map[string]string{"lang": "node", "code": "1"})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Stdout).To(Equal("whole output"))

		var kinds []watch.EventType
		for len(kinds) == 0 || kinds[len(kinds)-1] != watch.Deleted {
			var e watch.Event
			Eventually(changes.ResultChan()).Should(Receive(&e))
			kinds = append(kinds, e.Type)
			Expect(e.Object.(*v1alpha1.SandboxRun).Status.Stdout).To(BeEmpty())
		}
		Expect(len(kinds)).To(BeNumerically("<=", 4), "%v", kinds)
	})

	It("fails at once when its kept runtime is gone", func(ctx SpecContext) {
		run := newRun("late", fromBus, func(r *v1alpha1.SandboxRun) {
			r.Spec.Language, r.Spec.RuntimeRef = "", &v1alpha1.LocalReference{Name: "kept"}
		})
		create(ctx, run)
		fails(ctx, run, v1alpha1.SandboxRunSandboxFailedReason)
		Expect(stack.Provider.Calls(fake.Create)).To(BeEmpty())
	})

	It("that is deleted ends its caller's wait", func(ctx SpecContext) {
		begun := hangs()
		caller := callerOfRuns(ctx)
		failed := make(chan error, 1)
		go func() {
			_, err := caller.Call(ctx, bus.Call{FunctionID: "sandbox-code-runner::run", Data: json.RawMessage(`{"lang":"node","code":"1"}`)})
			failed <- err
		}()
		Eventually(begun.Load).Should(BeEquivalentTo(1))
		Expect(stack.Client.DeleteAllOf(ctx, &v1alpha1.SandboxRun{}, client.InNamespace(stack.Namespace))).To(Succeed())
		var got error
		Eventually(failed).Should(Receive(&got))
		var remote *bus.RemoteError
		Expect(errors.As(got, &remote)).To(BeTrue(), "%v", got)
		Eventually(sandboxes).WithArguments(ctx).Should(BeZero())
	})
})

// callerOfRuns returns a worker that can call run.
func callerOfRuns(ctx SpecContext) *bus.Client {
	GinkgoHelper()
	caller, _, err := stack.Peer(ctx, "caller")
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		_, err := caller.FunctionInfo(ctx, "sandbox-code-runner::run", "default")
		return err
	}).Should(Succeed())
	return caller
}
