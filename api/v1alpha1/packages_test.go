package v1alpha1_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// The API server and the agent each have the rule of a requirement; what one takes
// the other must not refuse.
var _ = Describe("Packages", Ordered, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	requirements := []string{
		"left-pad", "left-pad@1.3.0", "left-pad@^1.3 || ~2", "@scope/name", "@scope/name@latest", "a@1 - 2", "~a", "a..b", "a@*",
		"requests", "requests==2.32.3", "requests>=2,<3", "requests >= 2 , < 3", "uvicorn[standard]~=0.30", "a[b, c]", "A.b_c-d", "a===1+local", "a!=1.*",
		"Left-Pad", "@Scope/name", "@scope", "user/repo", "a@", "a@npm:b", "a@file:b", "a==", "a>=1;x", "a[", "a[]", "a b", "-r x", "--pre", "./a", "../a",
		"a@https://b", "git+ssh://a", "a @ b", "a\tb", "é", "a@é", "1", "_a", ".a", "a.", "a=1", "a>", "a<1>2", "a,b",
	}
	for _, language := range []string{"Node", "Python"} {
		It("of "+language+" are those of the agent", func(ctx SpecContext) {
			agents := map[string]wire.Language{"Node": wire.Node, "Python": wire.Python}[language]
			taken := 0
			for _, requirement := range requirements {
				ours := runtimeKind.tryCreate(ctx, namespace, set("language", language), set("network", "Enabled"),
					many("packages", 1, func(int) any { return requirement }))
				if wire.CheckRequirement(agents, requirement) != nil {
					expectRefusal(ours, "spec.packages")
					continue
				}
				Expect(ours).NotTo(HaveOccurred(), requirement)
				taken++
			}
			Expect(taken).To(BeNumerically(">", 5))
		})
	}
})
