package sandboxrun_test

import (
	"context"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// secretFile is a file from the Secret s.
func secretFile(path string) v1alpha1.File {
	return v1alpha1.File{Path: path, ContentFrom: &v1alpha1.KeySource{
		SecretKeyRef: &v1alpha1.KeyReference{Name: "s", Key: "key"},
	}}
}

func theSecret(value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "s"}, StringData: map[string]string{"key": value},
	}
}

var _ = Describe("The files of a run", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx) })

	It("are put beside the program once all of them are there", func(ctx SpecContext) {
		var seen atomic.Pointer[wire.RunRequest]
		stack.Guest.OnRun(func(_ context.Context, r wire.RunRequest) (wire.Reply, error) {
			seen.Store(&r)
			return wire.Reply{Run: &wire.Run{Stdout: "the key is open-sesame"}}, nil
		})
		run := newRun("files", func(r *v1alpha1.SandboxRun) {
			r.Spec.Files = []v1alpha1.File{
				{Path: "data/in.json", Content: ptr.To("{}"), Mode: "0600"}, secretFile("/etc/key"),
			}
		})
		create(ctx, run)
		eventually(ctx, run, v1alpha1.ReferenceNotFoundReason)
		Expect(conditions.Find(run, v1alpha1.ReadyCondition).Message).To(Equal(`spec: files /etc/key: Secret "s" does not exist`))
		Expect(stack.Provider.Calls(fake.Create)).To(BeEmpty())

		create(ctx, theSecret("open-sesame"))
		succeeds(ctx, run)
		Expect(seen.Load().Files).To(Equal([]wire.File{
			{Path: "data/in.json", Content: []byte("{}"), Mode: "0600"}, {Path: "/etc/key", Content: []byte("open-sesame")},
		}))
		Expect(run.Status.Stdout).To(Equal("the key is [redacted]"))
	})

	It("may not be too large together", func(ctx SpecContext) {
		large := strings.Repeat("x", 900<<10)
		var files []v1alpha1.File
		for _, name := range strings.Split("abcdefghij", "") {
			create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: name}, Data: map[string]string{"k": large},
			})
			files = append(files, v1alpha1.File{Path: name, ContentFrom: &v1alpha1.KeySource{
				ConfigMapKeyRef: &v1alpha1.KeyReference{Name: name, Key: "k"},
			}})
		}
		run := newRun("large", func(r *v1alpha1.SandboxRun) { r.Spec.Files = files })
		create(ctx, run)
		fails(ctx, run, v1alpha1.InvalidSpecReason)
		Expect(conditions.Find(run, v1alpha1.StalledCondition).Message).To(ContainSubstring("8388608 are allowed"))
	})
})

var _ = Describe("The sandbox of a run", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx) })

	described := func(guest v1alpha1.GuestSpec) func(*v1alpha1.SandboxRun) {
		return func(r *v1alpha1.SandboxRun) { r.Spec.Runtime = &guest }
	}

	It("gets files, packages and setup before the program", func(ctx SpecContext) {
		create(ctx, theSecret("open-sesame"))
		outfits := make(chan []string, 1)
		stack.Guest.OnRun(func(context.Context, wire.RunRequest) (wire.Reply, error) {
			outfits <- stack.Guest.Outfits()
			return wire.Reply{Run: &wire.Run{}}, nil
		})
		run := newRun("fit", described(v1alpha1.GuestSpec{
			Network:  v1alpha1.AccessEnabled,
			Files:    []v1alpha1.File{secretFile("/etc/key")},
			Packages: []string{"left-pad@^1.3"},
			Setup:    []string{"mkdir /data", "touch /data/x"},
		}))
		create(ctx, run)
		succeeds(ctx, run)
		Expect(<-outfits).To(Equal([]string{"left-pad@^1.3", "mkdir /data", "touch /data/x"}))
		Expect(stack.Provider.Calls(fake.WriteFile)).To(ContainElement(HaveField("Path", "/etc/key")))
	})

	DescribeTable("exports no telemetry unless the run wants it", func(ctx SpecContext, name string, env []v1alpha1.EnvVar, want string) {
		run := newRun(name, described(v1alpha1.GuestSpec{Env: env}))
		create(ctx, run)
		succeeds(ctx, run)
		Expect(stack.Provider.Calls(fake.Create)).To(HaveExactElements(
			HaveField("Create.Env", HaveKeyWithValue("OTEL_ENABLED", want))))
	},
		Entry("by default", "silent", nil, "false"),
		Entry("by its runtime's variable", "telling", []v1alpha1.EnvVar{{Name: "OTEL_ENABLED", Value: ptr.To("true")}}, "true"),
	)

	It("that cannot be made fit ends the run before the program, without showing a Secret", func(ctx SpecContext) {
		create(ctx, theSecret("open-sesame"))
		begun := hangs()
		run := newRun("unfit", described(v1alpha1.GuestSpec{
			Files: []v1alpha1.File{secretFile("/etc/key")}, Setup: []string{"true", "FAILS open-sesame"},
		}))
		create(ctx, run)
		fails(ctx, run, v1alpha1.SandboxRunPrepareFailedReason)
		Expect(conditions.Find(run, v1alpha1.StalledCondition).Message).To(Equal(
			"spec.runtime.setup command 2: exited with 1: FAILS [redacted]"))
		Expect(begun.Load()).To(BeZero())
		Eventually(sandboxes).WithArguments(ctx).Should(BeZero())
	})

	It("is not made for packages that are none", func(ctx SpecContext) {
		run := newRun("none", described(v1alpha1.GuestSpec{
			Network: v1alpha1.AccessEnabled, Packages: []string{"left-pad@../../etc"},
		}))
		Expect(stack.Client.Create(ctx, run)).To(MatchError(ContainSubstring("spec.runtime.packages")))
		Expect(stack.Provider.Calls(fake.Create)).To(BeEmpty())
	})
})

var _ = Describe("A program in a SandboxRuntime", func() {
	BeforeEach(func(ctx SpecContext) {
		startStack(ctx)
		create(ctx, &v1alpha1.SandboxRuntime{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "own"},
			Spec:       v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguageNode},
		})
	})

	inRuntime := func(r *v1alpha1.SandboxRun) { r.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "own"} }

	// begins starts a run whose program goes on until it is ended, and returns the
	// token by which that is done.
	begins := func(ctx SpecContext, run *v1alpha1.SandboxRun) string {
		GinkgoHelper()
		tokens := make(chan string, 1)
		stack.Guest.OnRun(func(ctx context.Context, r wire.RunRequest) (wire.Reply, error) {
			tokens <- r.Token
			<-ctx.Done()
			return wire.Reply{}, sandbox.NewUnknownOutcomeError(ctx.Err())
		})
		create(ctx, run)
		var token string
		Eventually(tokens).Should(Receive(&token))
		Expect(token).To(HaveLen(32))
		return token
	}

	It("ends at once when its run is cancelled", func(ctx SpecContext) {
		run := newRun("cancelled", inRuntime)
		token := begins(ctx, run)
		Expect(stack.Guest.Cancelled()).To(BeEmpty())
		change(ctx, run, func() { run.Spec.Cancel = true })
		fails(ctx, run, v1alpha1.SandboxRunCancelledReason)
		Expect(stack.Guest.Cancelled()).To(Equal([]string{token}))
		Expect(sandboxes(ctx)).To(Equal(1), "the runtime keeps its sandbox")
	})

	It("ends at once when its run is deleted", func(ctx SpecContext) {
		run := newRun("deleted", inRuntime)
		token := begins(ctx, run)
		Expect(stack.Client.Delete(ctx, run)).To(Succeed())
		Eventually(stack.Guest.Cancelled).Should(Equal([]string{token}))
	})

	It("ends also if every place of the sandbox is taken at first", func(ctx SpecContext) {
		run := newRun("busy", inRuntime)
		token := begins(ctx, run)
		stack.Provider.FailNext(fake.Exec, sandbox.NewBusyError(), sandbox.NewBusyError())
		Expect(stack.Client.Delete(ctx, run)).To(Succeed())
		Eventually(stack.Guest.Cancelled).Should(Equal([]string{token}))
	})

	It("ends at once when the operator stops", func(ctx SpecContext) {
		token := begins(ctx, newRun("stopped", inRuntime))
		Expect(stack.StopOperator()).To(Succeed())
		Expect(stack.Guest.Cancelled()).To(Equal([]string{token}))
	})

	It("runs in a sandbox that lacks this version's agent", func(ctx SpecContext) {
		first := newRun("first", inRuntime)
		create(ctx, first)
		succeeds(ctx, first)
		before := len(stack.Provider.Calls(fake.WriteFile))
		// The program of the next exec is not there, as after an upgrade.
		stack.Provider.OnExec(func(_ context.Context, _ sandbox.Info, _ sandbox.ExecRequest) (sandbox.ExecResult, error) {
			stack.Provider.OnExec(stack.Guest.Exec)
			return sandbox.ExecResult{ExitCode: 127, Stderr: []byte("no such file")}, nil
		})
		second := newRun("second", inRuntime)
		create(ctx, second)
		succeeds(ctx, second)
		Expect(stack.Provider.Calls(fake.WriteFile)).To(HaveLen(before + 1))
	})
})

var _ = Describe("A bus caller who goes away", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx) })

	It("takes its program along, also in a kept runtime", func(ctx SpecContext) {
		type kept struct {
			RuntimeID string `json:"runtime_id"`
		}
		steady := callerOfRuns(ctx)
		first, err := bus.Invoke[kept](ctx, steady, "sandbox-code-runner::run", map[string]any{"lang": "node", "code": "1", "keep": true})
		Expect(err).NotTo(HaveOccurred())
		tokens := make(chan string, 1)
		stack.Guest.OnRun(func(ctx context.Context, r wire.RunRequest) (wire.Reply, error) {
			tokens <- r.Token
			<-ctx.Done()
			return wire.Reply{}, sandbox.NewUnknownOutcomeError(ctx.Err())
		})
		leaver, leave, err := stack.Peer(ctx, "leaver")
		Expect(err).NotTo(HaveOccurred())
		go func() {
			_, _ = bus.Invoke[kept](ctx, leaver, "sandbox-code-runner::run",
				map[string]any{"code": "2", "runtime_id": first.RuntimeID, "timeout_ms": 20000})
		}()
		var token string
		Eventually(tokens).Should(Receive(&token))
		Expect(leave()).To(Succeed())
		Eventually(stack.Guest.Cancelled).Should(Equal([]string{token}))
	})
})
