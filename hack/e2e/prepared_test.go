package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// showsPrepared prints what the sample's files and commands left behind.
const showsPrepared = `
import { readFileSync, statSync } from 'node:fs';
console.log(JSON.parse(readFileSync('/srv/shop/prices.json')).tea);
console.log(readFileSync('/srv/shop/prices.sha256', 'utf8').length);
console.log((statSync('/srv/shop/check.sh').mode & 0o777).toString(8));
`

var _ = Describe("A runtime that is prepared", func() {
	It("has the files and what the commands made of them in every sandbox", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		kubectl(ctx, "apply", "-n", namespace, "-f", "config/samples/runtime-node.yaml")
		kubectl(ctx, "wait", "-n", namespace, "--for=condition=Ready", "sbr/prepared", "--timeout=60s")
		first := inRuntime(newRun(namespace, "first", v1alpha1.LanguageNode, showsPrepared), "prepared")
		apply(ctx, first)
		waitFor(ctx, first, "Complete", "sbn")
		Expect(first.Status.Stdout).To(Equal("350\n88\n755\n"))

		By("rolling over to another content")
		applySample(ctx, namespace, "runtime-node.yaml", `"tea": 350`, `"tea": 400`)
		runtime := object(&v1alpha1.SandboxRuntime{}, namespace, "prepared")
		Eventually(ctx, condition(runtime, "Ready")).Should(be(metav1.ConditionTrue, "Ready", Not(BeEmpty())))
		second := inRuntime(newRun(namespace, "second", v1alpha1.LanguageNode, showsPrepared), "prepared")
		apply(ctx, second)
		waitFor(ctx, second, "Complete", "sbn")
		Expect(second.Status.Stdout).To(HavePrefix("400\n"))

		By("refusing a content that a command refuses")
		applySample(ctx, namespace, "runtime-node.yaml", `"tea": 350`, `"tea": `)
		Eventually(ctx, condition(runtime, "Ready")).Should(
			be(metav1.ConditionFalse, "SetupFailed", And(ContainSubstring("spec.setup command 1"), ContainSubstring("JSON"))))
		Expect(runtime.Status.ReadyReplicas).To(BeEquivalentTo(1), "the old sandbox goes on")
	}, specPatience)

	It("takes the files from Secrets, follows them on request, and shows none", func(ctx SpecContext) {
		runtime := newRuntime(newNamespace(ctx), "secretive", v1alpha1.LanguagePython)
		vault := object(&corev1.Secret{}, runtime.Namespace, "vault")
		vault.StringData = map[string]string{"token": "hunter2-of-the-vault"}
		Expect(kube.Create(ctx, vault)).To(Succeed())
		runtime.Spec.Files = []v1alpha1.File{{Path: "/run/secrets/token", Mode: "0600", ContentFrom: &v1alpha1.KeySource{
			SecretKeyRef: &v1alpha1.KeyReference{Name: "vault", Key: "token"},
		}}}
		runtime.Spec.Setup = []string{"cat /run/secrets/token >&2; test $(wc -c < /run/secrets/token) -gt 21"}
		apply(ctx, runtime)
		Eventually(ctx, condition(runtime, "Ready")).Should(be(metav1.ConditionFalse, "SetupFailed", ContainSubstring("[redacted]")))

		By("another Secret")
		vault.StringData = map[string]string{"token": "hunter2-of-the-next-vault"}
		Expect(kube.Update(ctx, vault)).To(Succeed())
		kubectl(ctx, "annotate", "-n", runtime.Namespace, "sbr/secretive", v1alpha1.ReconcileRequestAnnotation+"=now")
		waitFor(ctx, runtime, "Ready", "sbr")
		Expect(kube.Get(ctx, client.ObjectKeyFromObject(runtime), runtime)).To(Succeed())
		Expect(runtime.Status.ReadyReplicas).To(BeEquivalentTo(1))
	}, specPatience)
})
