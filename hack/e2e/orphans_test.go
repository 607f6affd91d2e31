package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

var _ = Describe("The sweep", func() {
	It("destroys sandboxes of forgotten attempts, and leaves those of others alone", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "known", v1alpha1.LanguageNode, nodeEcho)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		known := sandboxIDs(ctx)
		runtime := &v1alpha1.SandboxRuntimeList{}
		Expect(kube.List(ctx, runtime, client.InNamespace(f.Namespace))).To(Succeed())
		Expect(runtime.Items).To(HaveLen(1))
		us, object := operatorID(ctx), string(runtime.Items[0].UID)

		strangers := []string{
			makeSandbox(ctx, "my own sandbox"),
			makeSandbox(ctx, ""),
			makeSandbox(ctx, sandbox.Marker{Operator: "another-operator", Object: object, Nonce: sandbox.NewNonce()}.String()),
		}
		orphans := []string{
			makeSandbox(ctx, sandbox.Marker{Operator: us, Object: object, Nonce: sandbox.NewNonce()}.String()),
			makeSandbox(ctx, sandbox.Marker{Operator: us, Object: "no-such-object", Nonce: sandbox.NewNonce()}.String()),
		}
		Eventually(ctx, exist(orphans)).Should(BeZero(), "sandboxes of forgotten attempts")
		Consistently(ctx, exist(append(strangers, known...))).WithTimeout(4 * time.Second).WithPolling(200 * time.Millisecond).
			Should(Equal(len(strangers) + len(known)))
		Expect(call(ctx, f.Spec.FunctionID, 2)).To(Equal("2"))
	}, specPatience)

	It("leaves exactly the sandboxes that objects name, whatever restarts", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		apply(ctx, newRuntime(namespace, "pair", v1alpha1.LanguageNode))
		kubectl(ctx, "scale", "-n", namespace, "sbr/pair", "--replicas=2")
		f := newFunction(namespace, "served", "", nodeEcho)
		f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "pair"}
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		expectAgreement(ctx)

		By("a request to create that the bus repeats, beside a stranger's sandbox")
		used := sandboxIDs(ctx)
		strangers := []string{makeSandbox(ctx, "my own sandbox")}
		rows, err := listSandboxes(ctx, caller)
		Expect(err).NotTo(HaveOccurred())
		marked := slices.IndexFunc(rows, func(row sandboxRow) bool { return strings.HasPrefix(row.Name, "sbx/") })
		twin := makeSandbox(ctx, rows[marked].Name)
		Eventually(ctx, exist([]string{twin})).Should(BeZero(), "the twin of a sandbox in use")
		Expect(exist(used)(ctx)).To(Equal(len(used)))

		By("the crash of the operator")
		kill(stack.Operator)
		restart(ctx, stack.Operator)
		expectAgreement(ctx)
		Expect(exist(append(strangers, used...))(ctx)).To(Equal(len(used)+1), "nothing is replaced")

		By("an engine that goes while sandboxes are being made")
		kubectl(ctx, "scale", "-n", namespace, "sbr/pair", "--replicas=6")
		Eventually(ctx, countSandboxes).WithPolling(time.Millisecond).Should(BeNumerically(">", len(used)+1))
		Expect(running.StopPart(ctx, stack.Engine)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { startEngineAgain(ctx) }, NodeTimeout(startPatience))
		startEngineAgain(ctx)
		waitFor(ctx, f, "Ready", "sbf")
		Eventually(ctx, countSandboxes).Should(Equal(7))
		expectAgreement(ctx)
		Expect(exist(append(strangers, used...))(ctx)).To(Equal(len(used)+1), "nothing that took calls is replaced")

		By("the crash of the daemon, with all that it had")
		kill(stack.Daemon)
		restart(ctx, stack.Daemon)
		Eventually(ctx, countSandboxes).Should(Equal(6))
		expectAgreement(ctx)
		Eventually(ctx, answers(f.Spec.FunctionID, 3)).Should(Equal("3"))
	}, leaderPatience)

	It("replaces a sandbox that somebody stopped, and calls go on", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "robbed", v1alpha1.LanguageNode, nodeEcho)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		lost := sandboxIDs(ctx)
		call(ctx, "sandbox::stop", m{"sandbox_id": lost[0]})
		Expect(call(ctx, f.Spec.FunctionID, 9)).To(Equal("9"), "the caller waits instead of failing")
		Expect(exist(lost)(ctx)).To(BeZero())
	}, specPatience)
})

// operatorID is the UID of the ConfigMap that the operator made once.
func operatorID(ctx context.Context) string {
	GinkgoHelper()
	identity := object(&corev1.ConfigMap{}, "sandbox-operator-system", "sandbox-operator-identity")
	refresh(ctx, identity)
	return string(identity.UID)
}

// makeSandbox makes one by hand, until the end of the spec.
func makeSandbox(ctx context.Context, name string) string {
	GinkgoHelper()
	request := m{"image": "node"}
	if name != "" {
		request["name"] = name
	}
	var made struct {
		ID string `json:"sandbox_id"`
	}
	Expect(json.Unmarshal([]byte(call(ctx, "sandbox::create", request)), &made)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		// The sweep may have been faster.
		_, _ = tryCall(ctx, "sandbox::stop", m{"sandbox_id": made.ID})
	}, specPatience)
	return made.ID
}

// exist returns a function that counts which of the sandboxes the daemon lists.
func exist(ids []string) func(context.Context) int {
	return func(ctx context.Context) int {
		count := 0
		for _, id := range sandboxIDs(ctx) {
			if slices.Contains(ids, id) {
				count++
			}
		}
		return count
	}
}
