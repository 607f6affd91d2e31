package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

var _ = Describe("A SandboxRun", func() {
	It("runs in a SandboxRuntime, whose files stay for the next run", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		apply(ctx, newRuntime(namespace, "shared", v1alpha1.LanguagePython))
		write := inRuntime(newRun(namespace, "write", "", "open('note', 'w').write('from the first')"), "shared")
		apply(ctx, write)
		waitFor(ctx, write, "Complete", "sbn")
		read := inRuntime(newRun(namespace, "read", v1alpha1.LanguagePython, "print(open('note').read())"), "shared")
		apply(ctx, read)
		waitFor(ctx, read, "Complete", "sbn")
		Expect(read.Status.Stdout).To(Equal("from the first\n"))
		Expect(countSandboxes(ctx)).To(Equal(1))
	}, specPatience)

	It("fails in a SandboxRuntime of another language", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		apply(ctx, newRuntime(namespace, "python", v1alpha1.LanguagePython))
		run := inRuntime(newRun(namespace, "mixed", v1alpha1.LanguageNode, "1"), "python")
		apply(ctx, run)
		Eventually(ctx, condition(run, "Failed")).Should(beTrue("InvalidSpec", "spec.language", "python"))
	}, specPatience)

	It("fails with the exit code of its program", func(ctx SpecContext) {
		run := newRun(newNamespace(ctx), "seven", v1alpha1.LanguageNode, "console.error('why'); process.exit(7)")
		apply(ctx, run)
		waitFor(ctx, run, "Failed", "sbn")
		Expect(condition(run, "Stalled")(ctx)).To(beTrue("NonZeroExitCode"))
		Expect(run.Status.ExitCode).To(HaveValue(BeEquivalentTo(7)))
		Expect(run.Status.Stderr).To(Equal("why\n"))
	}, specPatience)

	It("fails at its deadline, with what was printed until then", func(ctx SpecContext) {
		run := newRun(newNamespace(ctx), "slow", v1alpha1.LanguagePython, "import time\nprint('so far', flush=True)\ntime.sleep(60)")
		run.Spec.TimeoutMilliseconds = ptr.To[int32](500)
		apply(ctx, run)
		Eventually(ctx, condition(run, "Failed")).Should(beTrue("DeadlineExceeded"))
		Expect(run.Status.Stdout).To(Equal("so far\n"))
		Expect(run.Status.ExitCode).To(BeNil())
	}, specPatience)

	It("is cancelled while it runs, and its sandbox goes", func(ctx SpecContext) {
		run := newRun(newNamespace(ctx), "endless", v1alpha1.LanguageNode, "setInterval(() => {}, 1000)")
		run.Spec.TimeoutMilliseconds = ptr.To[int32](120_000)
		apply(ctx, run)
		Eventually(ctx, countSandboxes).Should(Equal(1))
		kubectl(ctx, "patch", "-n", run.Namespace, "sbn/endless", "--type=merge", "-p", `{"spec":{"cancel":true}}`)
		Eventually(ctx, condition(run, "Failed")).Should(beTrue("Cancelled"))
		Eventually(ctx, countSandboxes).Should(BeZero())
	}, specPatience)

	It("ends with its object, if that is deleted while it runs", func(ctx SpecContext) {
		run := newRun(newNamespace(ctx), "doomed", v1alpha1.LanguageNode, "setInterval(() => {}, 1000)")
		run.Spec.TimeoutMilliseconds = ptr.To[int32](120_000)
		apply(ctx, run)
		Eventually(ctx, countSandboxes).Should(Equal(1))
		kubectl(ctx, "delete", "-n", run.Namespace, "sbn/doomed", "--timeout=30s")
		Eventually(ctx, countSandboxes).Should(BeZero())
	}, specPatience)

	It("goes by itself after its time to live", func(ctx SpecContext) {
		run := newRun(newNamespace(ctx), "brief", v1alpha1.LanguageNode, "1")
		run.Spec.TTLSecondsAfterFinished = ptr.To[int32](2)
		apply(ctx, run)
		Eventually(ctx, condition(run, "Complete")).Should(beTrue("Completed"))
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(run), &v1alpha1.SandboxRun{}))
		}).Should(BeTrue())
	}, specPatience)

	It("gets a value from a Secret, which no object shows although the program prints it", func(ctx SpecContext) {
		const password = "correct-horse-battery"
		namespace := newNamespace(ctx)
		secret := object(&corev1.Secret{}, namespace, "vault")
		secret.StringData = map[string]string{"password": password}
		Expect(kube.Create(ctx, secret)).To(Succeed())
		run := newRun(namespace, "secretive", v1alpha1.LanguagePython,
			"import os, sys\nvalue = os.environ['PASSWORD']\nprint(len(value), value)\nprint(value, file=sys.stderr)\nresult = [value]")
		run.Spec.Env = []v1alpha1.EnvVar{{Name: "PASSWORD", ValueFrom: &v1alpha1.KeySource{
			SecretKeyRef: &v1alpha1.KeyReference{Name: "vault", Key: "password"},
		}}}
		apply(ctx, run)
		waitFor(ctx, run, "Complete", "sbn")
		Expect(run.Status.Stdout).To(Equal("21 [redacted]\n"))
		Expect(kubectl(ctx, "get", "sandbox,events", "-n", namespace, "-o", "yaml")).NotTo(ContainSubstring(password))
	}, specPatience)

	It("keeps the end of a long output", func(ctx SpecContext) {
		run := newRun(newNamespace(ctx), "chatty", v1alpha1.LanguagePython, "print('x' * 100_000)\nprint('the end')")
		apply(ctx, run)
		waitFor(ctx, run, "Complete", "sbn")
		Expect(run.Status.Truncated).To(BeTrue())
		Expect(len(run.Status.Stdout)).To(BeNumerically("<=", v1alpha1.MaxStatusStreamBytes))
		Expect(strings.HasSuffix(run.Status.Stdout, "x\nthe end\n")).To(BeTrue())
	}, specPatience)
})
