//go:build flux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// fluxPatience covers a fetch, a build, an apply and a wait, of both folders.
const fluxPatience = time.Minute

var _ = Describe("Flux", Label("flux"), Ordered, func() {
	BeforeAll(func(ctx SpecContext) { startFlux(ctx) }, NodeTimeout(startPatience))

	var (
		namespace, id string
		shop          repository
	)
	applied := be(metav1.ConditionTrue, "ReconciliationSucceeded", Not(BeEmpty()))

	// expectOfFlux waits for what Flux says of the newest commit.
	expectOfFlux := func(ctx context.Context, ready OmegaMatcher) {
		GinkgoHelper()
		Eventually(ctx, fluxReady(namespace, "functions", shop.head(ctx))).WithTimeout(fluxPatience).Should(ready)
	}
	push := func(ctx context.Context, message string, files map[string]string, ready OmegaMatcher) {
		GinkgoHelper()
		By(message)
		shop.commit(ctx, message, files)
		expectOfFlux(ctx, ready)
	}

	BeforeEach(func(ctx SpecContext) {
		namespace, shop = newNamespace(ctx), newRepository(ctx)
		id = namespace + "::price"
		shop.commit(ctx, "open the shop", shopFiles(namespace))
		printed, err := tryKubectl(ctx, fmt.Sprintf(fluxObjects, shop.url, namespace), "apply", "-n", namespace, "-f", "-")
		Expect(err).NotTo(HaveOccurred(), printed)
		DeferCleanup(func(ctx SpecContext) {
			// One after the other: a function whose runtime goes first is waited for.
			for _, object := range []string{"kustomization/functions", "kustomization/runtimes", "gitrepository/shop"} {
				kubectl(ctx, "delete", "-n", namespace, object, "--timeout=60s")
			}
		}, specPatience)
		expectOfFlux(ctx, applied)
	}, specPatience)

	It("publishes a commit, follows the next one and prunes what goes", func(ctx SpecContext) {
		// Flux waited until the function was Ready, so here nobody waits.
		Expect(call(ctx, id, m{})).To(Equal("350"))
		push(ctx, "raise the price", map[string]string{"functions/price.py": fmt.Sprintf(sourceFile, 400)}, applied)
		Expect(call(ctx, id, m{})).To(Equal("400"))

		push(ctx, "close the shop", map[string]string{
			"runtimes/shop.yaml": "", "runtimes/kustomization.yaml": nothingLeftFile,
			"functions/price.yaml": "", "functions/price.py": "", "functions/kustomization.yaml": nothingLeftFile,
		}, applied)
		Eventually(ctx, objectsEverywhere).Should(BeEmpty())
		Eventually(ctx, functionsOnBus).Should(Equal(builtIns))
		Eventually(ctx, countSandboxes).Should(BeZero())
	}, specPatience)

	It("names the object that a commit breaks, which says why and answers as before", func(ctx SpecContext) {
		failed := be(metav1.ConditionFalse, "HealthCheckFailed",
			ContainSubstring("SandboxFunction/%s/price status: 'Failed'", namespace))
		push(ctx, "forget the handler", map[string]string{"functions/price.py": "price = 500\n"}, failed)
		f := object(&v1alpha1.SandboxFunction{}, namespace, "price")
		Expect(condition(f, "Stalled")(ctx)).To(beTrue("SourceInvalid", "handler"))
		Expect(call(ctx, id, m{})).To(Equal("350"))

		push(ctx, "remember it", map[string]string{"functions/price.py": fmt.Sprintf(sourceFile, 500)}, applied)
		Expect(call(ctx, id, m{})).To(Equal("500"))
	}, specPatience)

	It("passes on why a change is refused, and replaces the object if it may", func(ctx SpecContext) {
		renamed := fmt.Sprintf(functionFile, namespace+"-new")
		push(ctx, "rename what cannot be renamed", map[string]string{"functions/price.yaml": renamed},
			be(metav1.ConditionFalse, "ReconciliationFailed", And(
				ContainSubstring("SandboxFunction/%s/price", namespace), ContainSubstring("functionID cannot be changed"))))
		Expect(call(ctx, id, m{})).To(Equal("350"))

		push(ctx, "allow it", map[string]string{"functions/price.yaml": strings.Replace(renamed,
			"metadata:\n", "metadata:\n  annotations: {kustomize.toolkit.fluxcd.io/force: enabled}\n", 1)}, applied)
		Expect(call(ctx, namespace+"-new::price", m{})).To(Equal("350"))
		Expect(functionsOnBus(ctx)).NotTo(ContainElement(id))
	}, specPatience)

	It("corrects what somebody changes by hand", func(ctx SpecContext) {
		kubectl(ctx, "patch", "-n", namespace, "sbf/price", "--type=merge", "-p", `{"spec":{"suspend":true}}`)
		Eventually(ctx, functionsOnBus).ShouldNot(ContainElement(id))
		// What `flux reconcile` does.
		kubectl(ctx, "annotate", "-n", namespace, "kustomization/functions", "reconcile.fluxcd.io/requestedAt=now")
		f := object(&v1alpha1.SandboxFunction{}, namespace, "price")
		Eventually(ctx, condition(f, "Ready")).WithTimeout(fluxPatience).Should(beTrue("Ready"))
		Expect(call(ctx, id, m{})).To(Equal("350"))
	}, specPatience)
})
