package e2e

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// kill ends a part as a crash would; it is started again by the spec, or after
// it.
func kill(part stack.Part) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) {
		if running.PID(part) == 0 {
			restart(ctx, part)
		}
	}, NodeTimeout(startPatience))
	Expect(running.KillPart(part)).To(Succeed())
}

func restart(ctx context.Context, part stack.Part) {
	GinkgoHelper()
	Expect(running.StartPart(ctx, part)).To(Succeed())
}

// answers returns a function for Eventually: what a published function says.
func answers(function string, payload any) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		answer, err := tryCall(ctx, function, payload)
		return string(answer), err
	}
}

var _ = Describe("When the sandbox daemon crashes", func() {
	It("functions say so, and answer again when it is back, untouched", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "patient", v1alpha1.LanguageNode, nodeEcho)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		generation := f.Generation
		kill(stack.Daemon)
		Eventually(ctx, condition(f, "Ready")).Should(be(metav1.ConditionFalse, "DaemonUnavailable", ContainSubstring("sandbox daemon")))

		By("applying more while it is away")
		run := newRun(f.Namespace, "waiting", v1alpha1.LanguagePython, "print('at last')")
		apply(ctx, run)
		Eventually(ctx, condition(run, "Ready")).Should(be(metav1.ConditionFalse, "DaemonUnavailable", ContainSubstring("sandbox daemon")))
		Expect(call(ctx, "engine::functions::list", m{})).NotTo(ContainSubstring("sandbox::create"))

		restart(ctx, stack.Daemon)
		Eventually(ctx, condition(f, "Ready")).WithTimeout(45 * time.Second).Should(beTrue("Ready"))
		Expect(call(ctx, f.Spec.FunctionID, 4)).To(Equal("4"))
		Eventually(ctx, condition(run, "Complete")).Should(beTrue("Completed"))
		Expect(f.Generation).To(Equal(generation))
	}, specPatience)

	It("a kept runtime is lost with its files, and says so", func(ctx SpecContext) {
		id := keepRuntime(ctx, "python", "open('note', 'w').write('gone')")
		kill(stack.Daemon)
		restart(ctx, stack.Daemon)
		Eventually(ctx, functionsOnBus).Should(ContainElement("sandbox::create"))
		_, err := tryCall(ctx, runFunction, m{"runtime_id": id, "code": "print(open('note').read())"})
		Expect(err).To(MatchError(Or(ContainSubstring("::expired:"), ContainSubstring("::runtime_not_found:"))))
	}, specPatience)
})

var _ = Describe("When the operator crashes", func() {
	It("the next one adopts the sandboxes, and everything answers as before", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "steady", v1alpha1.LanguageNode, nodeEcho)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		registerOnBus(ctx, "e2e-steady::five", "python", "def handler(payload):\n    return 5\n")
		kept := keepRuntime(ctx, "python", "open('note', 'w').write('kept')")
		sandboxes := sandboxIDs(ctx)
		Expect(sandboxes).To(HaveLen(3))

		kill(stack.Operator)
		Eventually(ctx, functionsOnBus).ShouldNot(ContainElement(f.Spec.FunctionID), "the engine takes a dead worker's functions off the bus")
		restart(ctx, stack.Operator)
		Eventually(ctx, answers(f.Spec.FunctionID, 6)).Should(Equal("6"))
		Eventually(ctx, answers("e2e-steady::five", m{})).Should(Equal("5"))
		Expect(runOnBus(ctx, m{"runtime_id": kept, "code": "print(open('note').read())"}).Stdout).To(Equal("kept\n"))
		Eventually(ctx, condition(f, "Ready")).Should(beTrue("Ready"))
		// Longer than the sweep needs to destroy what it does not know.
		Consistently(ctx, func() bool { return equalSecrets(sandboxIDs(ctx), sandboxes) }).WithTimeout(8*time.Second).
			WithPolling(200*time.Millisecond).Should(BeTrue(), "other sandboxes")
	}, specPatience)

	It("a run in flight ends Interrupted and is not repeated", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		apply(ctx, newRuntime(namespace, "log", v1alpha1.LanguagePython))
		once := inRuntime(newRun(namespace, "once", "", "import time\nopen('log', 'a').write('began\\n')\ntime.sleep(6)\n"), "log")
		apply(ctx, once)
		Eventually(ctx, readLog(namespace, "began")).Should(Equal("began\n"))
		kill(stack.Operator)
		restart(ctx, stack.Operator)
		Eventually(ctx, condition(once, "Failed")).Should(beTrue("Interrupted", "not repeated"))
		Expect(once.Status.Phase).To(Equal(v1alpha1.RunFailed))
		// The first program may still run beside this one.
		Expect(readLog(namespace, "after")(ctx)).To(Equal("began\n"))
		Consistently(ctx, condition(once, "Failed")).WithTimeout(3 * time.Second).Should(beTrue("Interrupted"))
		Expect(readLog(namespace, "end")(ctx)).To(Equal("began\n"))
	}, specPatience)

	It("a run of a bus caller ends Interrupted too, and its sandbox goes", func(ctx SpecContext) {
		failed := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			_, err := tryCall(ctx, runFunction, m{"lang": "node", "code": "setInterval(() => {}, 1000)", "timeout_ms": 30_000})
			failed <- err
		}()
		Eventually(ctx, countSandboxes).Should(Equal(1))
		runs := &v1alpha1.SandboxRunList{}
		Eventually(ctx, func() (v1alpha1.RunPhase, error) {
			err := kube.List(ctx, runs)
			if err != nil || len(runs.Items) != 1 {
				return "", err
			}
			return runs.Items[0].Status.Phase, nil
		}).Should(Equal(v1alpha1.RunRunning))
		kill(stack.Operator)
		Eventually(ctx, failed).Should(Receive(HaveOccurred()))
		restart(ctx, stack.Operator)
		Eventually(ctx, condition(&runs.Items[0], "Failed")).Should(beTrue("Interrupted"))
		Eventually(ctx, countSandboxes).Should(BeZero())
		Expect(kube.Delete(ctx, &runs.Items[0])).To(Succeed())
	}, specPatience)
})

// readLog returns a function that reads the file log in the runtime of that name
// with a run of its own.
func readLog(namespace, name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		run := inRuntime(newRun(namespace, "", "", "import os\nprint(open('log').read() if os.path.exists('log') else '', end='')"), "log")
		run.GenerateName = name + "-"
		run.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
		if err := kube.Create(ctx, run); err != nil {
			return "", err
		}
		kubectl(ctx, "wait", "-n", namespace, "--for=condition=Complete", "sbn/"+run.Name, "--timeout=40s")
		refresh(ctx, run)
		return run.Status.Stdout, nil
	}
}

// equalSecrets compares without showing.
func equalSecrets(a, b []string) bool {
	return slices.Equal(a, b)
}
