package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// quiet is how long nothing may be written once everything is as it should be.
const quiet = 5 * time.Second

var _ = Describe("What is as it should be", func() {
	It("is not written again, not even when it is looked at again", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		kubectl(ctx, "apply", "-n", namespace, "-k", "config/samples")
		kubectl(ctx, "create", "-n", namespace, "-f", "config/samples/run-node.yaml")
		kubectl(ctx, "wait", "-n", namespace, "--for=condition=Ready", "sbf,sbr,sbn", "--all", "--timeout=40s")
		stalled := newFunction(namespace, "stalled", v1alpha1.LanguageNode, "nothing to handle\n")
		apply(ctx, stalled)
		Eventually(ctx, condition(stalled, "Stalled")).Should(beTrue("SourceInvalid"))

		settled := settle(ctx)
		Consistently(ctx, versions).WithTimeout(quiet).WithPolling(100 * time.Millisecond).Should(Equal(settled))

		By("asking for a look at every function")
		before := reconciles(ctx, "sandboxfunction")
		kubectl(ctx, "annotate", "sbf", "--all", "-n", namespace, "reconcile.sandbox.iii.dev/requestedAt=now")
		asked := versions(ctx)
		Eventually(ctx, func(ctx context.Context) int { return reconciles(ctx, "sandboxfunction") }).Should(BeNumerically(">=", before+3))
		Consistently(ctx, versions).WithTimeout(time.Second).Should(Equal(asked), "a second reconcile writes")
	}, specPatience)

	It("is written again when somebody deletes what it stands on", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "founded", v1alpha1.LanguageNode, nodeEcho)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		kubectl(ctx, "delete", "-n", f.Namespace, "sbr", "--all", "--timeout=30s")
		Eventually(ctx, func(ctx context.Context) (string, error) {
			answer, err := tryCall(ctx, f.Spec.FunctionID, 8)
			return string(answer), err
		}).Should(Equal("8"))
		Eventually(ctx, condition(f, "Ready")).Should(beTrue("Ready"))
	}, specPatience)
})

// versions are the resource versions of all objects of our kinds.
func versions(ctx context.Context) map[string]string {
	found, err := versionsOf(ctx, sandboxLists()...)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return found
}

// settle waits until two readings half a second apart are the same.
func settle(ctx context.Context) map[string]string {
	GinkgoHelper()
	last := versions(ctx)
	Eventually(ctx, func(ctx context.Context) bool {
		before := last
		last = versions(ctx)
		return fmt.Sprint(before) == fmt.Sprint(last)
	}).WithPolling(500 * time.Millisecond).Should(BeTrue())
	return last
}

var reconcileTotal = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{controller="(\w+)",result="\w+"\} (\d+)`)

// reconciles reads the operator's own count.
func reconciles(ctx context.Context, controller string) int {
	GinkgoHelper()
	text := operatorMetrics(ctx)
	total := 0
	for _, found := range reconcileTotal.FindAllStringSubmatch(string(text), -1) {
		if found[1] == controller {
			count, err := strconv.Atoi(found[2])
			Expect(err).NotTo(HaveOccurred())
			total += count
		}
	}
	return total
}

// refresh reads an object again.
func refresh(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Expect(kube.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
}
