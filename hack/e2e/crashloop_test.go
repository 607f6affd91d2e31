package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// crashPatience covers two boots and the wait between them, which is 10 s.
const crashPatience = 40 * time.Second

// loseSandboxes ends all sandboxes past the operator, as a crash would.
func loseSandboxes(ctx context.Context) {
	GinkgoHelper()
	ids := sandboxIDs(ctx)
	Expect(ids).NotTo(BeEmpty())
	for _, id := range ids {
		call(ctx, "sandbox::stop", m{"sandbox_id": id})
	}
}

// crashTwice loses the runtime's sandbox, and then its replacement.
func crashTwice(ctx context.Context, runtime *v1alpha1.SandboxRuntime) {
	GinkgoHelper()
	waitFor(ctx, runtime, "Ready", "sbr")
	first := runtime.Status.Instances[0].Digest
	loseSandboxes(ctx)
	Eventually(ctx, func(ctx context.Context) ([]v1alpha1.InstanceStatus, error) {
		refresh(ctx, runtime)
		return runtime.Status.Instances, nil
	}).Should(HaveExactElements(And(HaveField("State", v1alpha1.InstanceReady), HaveField("Digest", Not(Equal(first))))),
		"the first loss is made good at once")
	loseSandboxes(ctx)
	Eventually(ctx, condition(runtime, "Ready")).Should(
		be(metav1.ConditionFalse, "CrashLoop", ContainSubstring("sandboxes are lost within a minute of being ready, again and again")))
}

var _ = Describe("A runtime whose sandboxes are lost again and again", func() {
	It("says so to kubectl, is tried again later, and is Ready when the losses end", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		f := newFunction(namespace, "unlucky", "", nodeEcho)
		f.Spec.TimeoutMilliseconds = ptr.To[int32](120_000)
		f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "fragile"}
		runtime := newRuntime(namespace, "fragile", v1alpha1.LanguageNode)
		apply(ctx, runtime)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		crashTwice(ctx, runtime)

		Expect(kubectl(ctx, "get", "sbr", "fragile", "-n", namespace)).To(MatchRegexp(`(?m)^fragile +Node +False +CrashLoop +0 `))
		Expect(kubectl(ctx, "get", "sbr", "fragile", "-n", namespace, "-o", "wide")).To(ContainSubstring("each replacement waits longer, up to 5 minutes"))
		Eventually(ctx, func(ctx context.Context) string { return kubectl(ctx, "describe", "sbr", "fragile", "-n", namespace) }).
			Should(MatchRegexp(`(?m)^ +Warning +CrashLoop .* sandboxes are lost within a minute`))
		answered := make(chan string, 1)
		go func() {
			defer GinkgoRecover()
			answered <- call(ctx, f.Spec.FunctionID, 7)
		}()

		By("surviving from now on")
		Eventually(ctx, condition(runtime, "Ready")).WithTimeout(crashPatience).Should(beTrue("Ready"))
		Expect(kubectl(ctx, "get", "sbr", "fragile", "-n", namespace)).To(MatchRegexp(`(?m)^fragile +Node +True +Ready +1 `))
		Eventually(ctx, answered).Should(Receive(Equal("7")), "a call waits for the next sandbox")
		Eventually(ctx, condition(f, "Ready")).Should(beTrue("Ready"))
	}, specPatience)

	It("is given another chance at once by a change of its spec", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		runtime := newRuntime(namespace, "fragile", v1alpha1.LanguagePython)
		apply(ctx, runtime)
		crashTwice(ctx, runtime)
		healed := newRuntime(namespace, "fragile", v1alpha1.LanguagePython)
		healed.Spec.Env = []v1alpha1.EnvVar{variable("HEALED", "yes")}
		apply(ctx, healed)
		ready := condition(healed, "Ready")
		Eventually(ctx, func(ctx context.Context) (metav1.Condition, error) {
			now, err := ready(ctx)
			if now.Reason == "CrashLoop" {
				return now, StopTrying("the losses of the former generation are held against this one")
			}
			return now, err
		}).Should(beTrue("Ready"))
	}, specPatience)
})
