package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Objects of every kind", Ordered, ContinueOnFailure, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	everyKind := func(body func(ctx SpecContext, k kind)) {
		GinkgoHelper()
		for _, k := range []kind{runtimeKind, functionKind, runKind} {
			It(k.name, func(ctx SpecContext) { body(ctx, k) })
		}
	}

	Context("stores only what the user wrote", func() {
		everyKind(func(ctx SpecContext, k kind) {
			written := k.object(namespace)
			stored := written.DeepCopy()
			Expect(apiClient.Create(ctx, stored)).To(Succeed())
			Expect(apiClient.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
			Expect(stored.Object["spec"]).To(Equal(written.Object["spec"]))
			Expect(stored.Object).NotTo(HaveKey("status"))
		})
	})

	Context("needs a spec", func() {
		everyKind(func(ctx SpecContext, k kind) {
			object := k.object(namespace)
			delete(object.Object, "spec")
			expectRefusal(apiClient.Create(ctx, object, client.DryRunAll), "spec", "Required")
		})
	})

	DescribeTable("names that become labels and sandbox markers end at 63 characters", func(ctx SpecContext, k kind) {
		object := k.object(namespace)
		object.SetName(strings.Repeat("n", 63))
		Expect(apiClient.Create(ctx, object, client.DryRunAll)).To(Succeed())
		object = k.object(namespace)
		object.SetName(strings.Repeat("n", 64))
		expectRefusal(apiClient.Create(ctx, object, client.DryRunAll), "metadata.name", "at most 63 characters")
	},
		Entry("SandboxRuntime", runtimeKind),
		Entry("SandboxFunction", functionKind),
	)
})
