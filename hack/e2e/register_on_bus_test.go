package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("register_function on the bus", func() {
	DescribeTable("publishes until the teardown of its namespace", func(ctx SpecContext, lang, source string) {
		id := "e2e-registered::double"
		registerOnBus(ctx, id, lang, source)
		Expect(call(ctx, id, m{"n": 21})).To(Equal("42"))
		Expect(kubectl(ctx, "get", "sbf", "-A")).To(ContainSubstring(id))

		_, err := tryCall(ctx, id, m{"n": "no number"})
		Expect(err).To(MatchError(And(ContainSubstring("sandbox-code-runner::handler_error"), ContainSubstring("no number given"))))

		Expect(call(ctx, teardownFunction, m{"namespace": "e2e-registered::"})).To(MatchJSON(
			`{"namespace":"e2e-registered::","torn_down":true,"unregistered":["e2e-registered::double"]}`))
		_, err = tryCall(ctx, id, m{"n": 1})
		Expect(err).To(MatchError(ContainSubstring("not_found")))
	},
		Entry("in Node", specPatience, "node", `
export async function handler({ n }) {
  if (typeof n !== 'number') throw new TypeError('no number given');
  return 2 * n;
}`),
		Entry("in Python", specPatience, "python", `
def handler(payload):
    if not isinstance(payload["n"], int):
        raise TypeError("no number given")
    return 2 * payload["n"]
`),
	)

	It("answers after the registration with no further wait, again and again", func(ctx SpecContext) {
		for round := range 3 {
			id := fmt.Sprintf("e2e-rounds::r%d", round)
			registerOnBus(ctx, id, "node", fmt.Sprintf("export const handler = () => %d;\n", round))
			Expect(call(ctx, id, m{})).To(Equal(fmt.Sprint(round)))
		}
		Expect(call(ctx, teardownFunction, m{"namespace": "e2e-rounds"})).To(ContainSubstring(
			`"unregistered":["e2e-rounds::r0","e2e-rounds::r1","e2e-rounds::r2"]`))
	}, specPatience)

	It("stores a source of more than 128 KiB beside its function", func(ctx SpecContext) {
		filler := strings.Repeat("x", 300<<10)
		registerOnBus(ctx, "e2e-large::size", "node", "const filler = '"+filler+"';\nexport const handler = () => filler.length;\n")
		Expect(call(ctx, "e2e-large::size", m{})).To(Equal(fmt.Sprint(len(filler))))
		stored := func() string { return kubectl(ctx, "get", "configmaps", "-n", running.RunsNamespace(), "-o", "name") }
		Expect(stored()).To(ContainSubstring("e2e-large"))
		call(ctx, teardownFunction, m{"namespace": "e2e-large"})
		Eventually(ctx, stored).ShouldNot(ContainSubstring("e2e-large"))
	}, specPatience)

	It("keeps calls of one function apart", func(ctx SpecContext) {
		registerOnBus(ctx, "e2e-apart::count", "node", "let calls = 0;\nexport const handler = () => ++calls;\n")
		for range 3 {
			Expect(call(ctx, "e2e-apart::count", m{})).To(Equal("1"), "each call has a fresh process")
		}
	}, specPatience)
})
