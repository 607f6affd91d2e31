package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// counting handlers tell how often their process was called.
var counting = map[v1alpha1.Language]string{
	v1alpha1.LanguageNode:   "let calls = 0;\nexport const handler = () => ++calls;\n",
	v1alpha1.LanguagePython: "calls = 0\n\ndef handler(payload):\n    global calls\n    calls += 1\n    return calls\n",
}

var _ = Describe("Processes of a function", func() {
	for language, source := range counting {
		It("serve one call each, or many where the function says so, in "+string(language), func(ctx SpecContext) {
			namespace := newNamespace(ctx)
			count := func() string { return call(ctx, namespace+"::count", m{}) }
			applyWith := func(isolation v1alpha1.FunctionIsolation) {
				f := newFunction(namespace, "count", language, source)
				f.Spec.Isolation = isolation
				apply(ctx, f)
				waitFor(ctx, f, "Ready", "sbf")
			}
			applyWith("")
			for range 5 {
				Expect(count()).To(Equal("1"))
			}
			applyWith(v1alpha1.IsolationShared)
			Eventually(count).Should(Equal("3"), "a process that calls share")
			applyWith(v1alpha1.IsolationPerCall)
			Eventually(count).Should(Equal("1"))
			Consistently(count).Should(Equal("1"))
		}, specPatience)
	}
})
