package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/bus"
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

	It("puts new code in the place of the old without a gap", func(ctx SpecContext) {
		const id = "e2e-replaced::version"
		registerOnBus(ctx, id, "node", "export const handler = () => 1;\n")
		replace := func(source string) error {
			_, err := tryCall(ctx, registerFunction, m{"function_id": id, "lang": "node", "source": source, "replace": true})
			return err
		}
		answers, stop := callAllAlong(ctx, id)
		Expect(replace("export const handler = () => 2;\n")).To(Succeed())
		Expect(call(ctx, id, m{})).To(Equal("2"))
		Expect(replace("export const nothing = 3;\n")).To(MatchError(ContainSubstring("handler")))
		Expect(call(ctx, id, m{})).To(Equal("2"))
		stop()
		Expect(answers()).To(HaveEach(Or(Equal("1"), Equal("2"))))
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

// callAllAlong calls a function again and again until stop, and collects what
// came.
func callAllAlong(ctx context.Context, id string) (answers func() []string, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var came []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			answer, err := caller.Call(context.WithoutCancel(ctx), bus.Call{FunctionID: id})
			if err != nil {
				answer = []byte(err.Error())
			}
			came = append(came, string(answer))
		}
	}()
	return func() []string { return came }, func() {
		cancel()
		<-done
	}
}
