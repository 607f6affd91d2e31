package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
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
