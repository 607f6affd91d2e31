package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

var _ = Describe("kubectl apply", func() {
	type change = func(*v1alpha1.SandboxFunction)
	id := func(id string) change { return func(f *v1alpha1.SandboxFunction) { f.Spec.FunctionID = id } }
	inline := func(source string) change {
		return func(f *v1alpha1.SandboxFunction) { f.Spec.Source.Inline = &source }
	}

	DescribeTable("refuses a function and changes nothing", func(ctx SpecContext, change change, field, reason string) {
		f := newFunction(newNamespace(ctx), "refused", v1alpha1.LanguageNode, nodeEcho)
		change(f)
		expectRefusal(ctx, f, field, reason)
	},
		Entry("in a wrong language", specPatience,
			func(f *v1alpha1.SandboxFunction) { f.Spec.Language = "Ruby" }, "spec.language", `"Node", "Python"`),
		Entry("with neither language nor runtimeRef", specPatience,
			func(f *v1alpha1.SandboxFunction) { f.Spec.Language = "" }, "spec", "exactly one of language"),
		Entry("with an empty source", specPatience, inline(""), "spec.source.inline", "at least 1"),
		Entry("without any source", specPatience,
			func(f *v1alpha1.SandboxFunction) { f.Spec.Source.Inline = nil }, "spec.source", "exactly one of inline and configMapKeyRef"),
		Entry("with an oversized source", specPatience,
			inline(strings.Repeat("x", v1alpha1.MaxInlineSourceBytes+1)), "spec.source.inline", "131072"),
		Entry("with a source whose bytes, not characters, are too many", specPatience,
			inline(strings.Repeat("é", v1alpha1.MaxInlineSourceBytes/2+1)), "spec.source.inline", "ConfigMap"),
		Entry("with an id without a prefix", specPatience, id("price"), "spec.functionID", "should match"),
		Entry("with an id in capitals", specPatience, id("Shop::price"), "spec.functionID", "should match"),
		Entry("with two dots in a row in the prefix", specPatience, id("a..b::price"), "spec.functionID", "two dots"),
		Entry("with an id that is too long", specPatience, id("e2e::"+strings.Repeat("x", 256)), "spec.functionID", "256"),
		Entry("under the engine's prefix", specPatience, id("engine::price"), "spec.functionID", "belongs to the engine"),
		Entry("under the sandbox daemon's prefix", specPatience, id("sandbox::price"), "spec.functionID", "belongs to the engine"),
		Entry("under the operator's own prefix", specPatience, id("sandbox-code-runner::run"), "spec.functionID", "belongs to the engine"),
		Entry("with a timeout above the bound", specPatience,
			func(f *v1alpha1.SandboxFunction) { f.Spec.TimeoutMilliseconds = ptr.To[int32](290_001) }, "spec.timeoutMilliseconds", "290000"),
	)

	DescribeTable("refuses a run and changes nothing", func(ctx SpecContext, change func(*v1alpha1.SandboxRun), field, reason string) {
		run := newRun(newNamespace(ctx), "refused", v1alpha1.LanguagePython, "print(1)")
		change(run)
		expectRefusal(ctx, run, field, reason)
	},
		Entry("in a wrong language", specPatience,
			func(r *v1alpha1.SandboxRun) { r.Spec.Language = "python" }, "spec.language", `"Node", "Python"`),
		Entry("with an empty source", specPatience,
			func(r *v1alpha1.SandboxRun) { r.Spec.Source.Inline = ptr.To("") }, "spec.source.inline", "at least 1"),
		Entry("with an oversized source", specPatience,
			func(r *v1alpha1.SandboxRun) {
				r.Spec.Source.Inline = ptr.To(strings.Repeat("#", v1alpha1.MaxInlineSourceBytes+1))
			}, "spec.source.inline", "131072"),
		Entry("both in a runtime and with one of its own", specPatience,
			func(r *v1alpha1.SandboxRun) { inRuntime(r, "x").Spec.Runtime = &v1alpha1.GuestSpec{} }, "spec", "at most one of runtime and runtimeRef"),
		Entry("with a variable that belongs to the operator", specPatience,
			func(r *v1alpha1.SandboxRun) {
				r.Spec.Env = []v1alpha1.EnvVar{{Name: "III_URL", Value: ptr.To("ws://x")}}
			}, "spec.env", "belong to the operator"),
	)

	It("refuses a runtime with bus access but no network", func(ctx SpecContext) {
		runtime := newRuntime(newNamespace(ctx), "refused", v1alpha1.LanguageNode)
		runtime.Spec.BusAccess = v1alpha1.AccessEnabled
		expectRefusal(ctx, runtime, "busAccess", "needs network: Enabled")
	}, specPatience)

	It("refuses to change what cannot be changed, and the object goes on as it was", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "fixed", v1alpha1.LanguageNode, nodeEcho)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		other := newFunction(f.Namespace, "fixed", v1alpha1.LanguageNode, nodeEcho)
		other.Spec.FunctionID = f.Namespace + "::other"
		expectRefusal(ctx, other, "spec.functionID", "cannot be changed")
		Expect(call(ctx, f.Spec.FunctionID, 5)).To(Equal("5"))
	}, specPatience)
})

func expectRefusal(ctx SpecContext, obj client.Object, field, reason string) {
	GinkgoHelper()
	expectNoChange(ctx, func() {
		printed, err := tryApply(ctx, obj)
		Expect(err).To(HaveOccurred(), printed)
		Expect(printed).To(And(ContainSubstring(field), ContainSubstring(reason)))
	})
}
