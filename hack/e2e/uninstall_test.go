package e2e

import (
	"context"
	"regexp"
	"strconv"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// cleanupPatience is the operator's limit of 60 s on a deletion, and much for a
// busy machine.
const cleanupPatience = 2 * time.Minute

var _ = Describe("A deletion", func() {
	It("of a namespace with everything in it ends while the daemon is silent, and the sweep does the rest", func(ctx SpecContext) {
		namespace := fillNamespace(ctx)
		postponed := postponedCleanups(ctx)
		daemon := running.PID(stack.Daemon)
		Expect(syscall.Kill(daemon, syscall.SIGSTOP)).To(Succeed())
		DeferCleanup(func() error { return syscall.Kill(daemon, syscall.SIGCONT) })
		kubectl(ctx, "delete", "namespace", namespace, "--wait=false")
		expectNamespaceGone(ctx, namespace)
		Expect(postponedCleanups(ctx)).To(Equal(postponed + 2))

		Expect(syscall.Kill(daemon, syscall.SIGCONT)).To(Succeed())
		Eventually(ctx, countSandboxes).WithTimeout(time.Minute).Should(BeZero())
	}, leaderPatience)

	It("of a namespace, a function or a runtime ends while the engine is away, and says what is left", func(ctx SpecContext) {
		namespace := fillNamespace(ctx)
		runtime := newRuntime(newNamespace(ctx), "held", v1alpha1.LanguageNode)
		apply(ctx, runtime)
		waitFor(ctx, runtime, "Ready", "sbr")
		f := newFunction(runtime.Namespace, "unheld", "", nodeEcho)
		f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: runtime.Name}
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		DeferCleanup(func(ctx SpecContext) { startEngineAgain(ctx) }, NodeTimeout(startPatience))
		Expect(running.StopPart(ctx, stack.Engine)).To(Succeed())

		kubectl(ctx, "delete", "namespace", namespace, "--wait=false")
		kubectl(ctx, "delete", "-n", runtime.Namespace, "sbr/held", "--wait=false")
		kubectl(ctx, "delete", "-n", f.Namespace, "sbf/unheld", "--timeout=30s")
		expectNamespaceGone(ctx, namespace)
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(runtime), runtime))
		}).WithTimeout(cleanupPatience).WithPolling(time.Second).Should(BeTrue())
		Eventually(ctx, func() int32 { return eventsOf(ctx, runtime, "CleanupPostponed") }).Should(BeEquivalentTo(1))

		startEngineAgain(ctx)
		Eventually(ctx, countSandboxes).WithTimeout(time.Minute).Should(BeZero())
	}, leaderPatience)
})

// startEngineAgain does nothing while it runs.
func startEngineAgain(ctx context.Context) {
	GinkgoHelper()
	if err := running.StartPart(ctx, stack.Engine); err != nil {
		Expect(err).To(MatchError(ContainSubstring("runs already")))
		return
	}
	Expect(caller.WaitConnected(ctx)).To(Succeed())
	Eventually(ctx, func() (bool, error) {
		_, err := caller.FunctionInfo(ctx, runFunction, "")
		return err == nil, nil
	}).WithTimeout(time.Minute).Should(BeTrue(), "the operator does not find the engine again")
}

// fillNamespace makes a namespace with functions, a runtime of their own and a
// shared one, and a run under way.
func fillNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	shared := newFunction(namespace, "shared", v1alpha1.LanguageNode, nodeEcho)
	own := newFunction(namespace, "own", "", nodeEcho)
	own.Spec.Runtime = &v1alpha1.FunctionRuntime{Language: v1alpha1.LanguageNode}
	run := newRun(namespace, "busy", v1alpha1.LanguageNode, "setInterval(() => {}, 1000)")
	for _, obj := range []client.Object{shared, own, run} {
		apply(ctx, obj)
	}
	waitFor(ctx, shared, "Ready", "sbf")
	waitFor(ctx, own, "Ready", "sbf")
	Eventually(ctx, countSandboxes).Should(Equal(3))
	return namespace
}

func expectNamespaceGone(ctx context.Context, name string) {
	GinkgoHelper()
	namespace := object(&corev1.Namespace{}, "", name)
	Eventually(ctx, func() (string, error) {
		err := kube.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if apierrors.IsNotFound(err) {
			return "gone", nil
		}
		return namespaceTroubles(namespace), err
	}).WithTimeout(cleanupPatience).WithPolling(time.Second).Should(Equal("gone"))
}

// namespaceTroubles is what Kubernetes waits for.
func namespaceTroubles(namespace *corev1.Namespace) string {
	words := "there"
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			words += "; " + c.Message
		}
	}
	return words
}

var postponedTotal = regexp.MustCompile(`(?m)^sandbox_cleanup_postponed_total (\d+)`)

// postponedCleanups reads the operator's own count.
func postponedCleanups(ctx context.Context) int {
	GinkgoHelper()
	text := operatorMetrics(ctx)
	found := postponedTotal.FindSubmatch(text)
	Expect(found).NotTo(BeNil(), "the metric is missing")
	count, err := strconv.Atoi(string(found[1]))
	Expect(err).NotTo(HaveOccurred())
	return count
}
