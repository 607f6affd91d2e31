package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The guest's own `iii` is the published SDK; its bus is the guests' listener.
var _ = Describe("A program with the global iii", func() {
	DescribeTable("registers a function with the operator, which others call", func(ctx SpecContext, lang, code string) {
		tearDownLater("e2e-born::triple")
		answer := runOnBus(ctx, m{"lang": lang, "code": code, "timeout_ms": 20_000})
		Expect(answer.Stdout).To(Equal("true 9\n"), answer.Stderr)
		Expect(call(ctx, "e2e-born::triple", m{"n": 5})).To(Equal("15"), "it lives longer than the program")
	},
		Entry("from Node", specPatience, "node", `
const source = 'export const handler = ({ n }) => 3 * n;';
const made = await iii.trigger({
  function_id: 'sandbox-code-runner::register_function',
  payload: { function_id: 'e2e-born::triple', lang: 'node', source },
});
console.log(made.registered, await iii.trigger({ function_id: 'e2e-born::triple', payload: { n: 3 } }));
`),
		Entry("from Python", specPatience, "python", `
source = "def handler(payload):\n    return 3 * payload['n']\n"
made = iii.trigger({
    "function_id": "sandbox-code-runner::register_function",
    "payload": {"function_id": "e2e-born::triple", "lang": "python", "source": source},
})
print(str(made["registered"]).lower(), iii.trigger({"function_id": "e2e-born::triple", "payload": {"n": 3}}))
`),
	)

	DescribeTable("serves a function of its own while it runs", func(ctx SpecContext, lang, code string) {
		Expect(runOnBus(ctx, m{"lang": lang, "code": code, "timeout_ms": 20_000}).Stdout).To(Equal("42\n"))
		Eventually(ctx, functionsOnBus).Should(Equal(builtIns))
	},
		Entry("in Node", specPatience, "node", `
iii.registerFunction('e2e-own::double', async (n) => 2 * n);
console.log(await iii.trigger({ function_id: 'e2e-own::double', payload: 21 }));
`),
		Entry("in Python", specPatience, "python", `
iii.register_function("e2e-own::double", lambda n: 2 * n)
print(iii.trigger({"function_id": "e2e-own::double", "payload": 21}))
`),
	)

	// Sandbox ids are bearer secrets: who could list them could enter any sandbox
	// (design rule 13).
	DescribeTable("is a stranger to the sandbox daemon", func(ctx SpecContext, function string) {
		answer := runOnBus(ctx, m{"lang": "node", "timeout_ms": 20_000, "code": `
const refusal = await iii.trigger({ function_id: '` + function + `', payload: { image: 'node' } }).catch((error) => error);
console.log(String(refusal.code ?? refusal.message ?? JSON.stringify(refusal)));
`})
		Expect(answer.Stdout).To(ContainSubstring("FORBIDDEN"), answer.Stderr)
	},
		Entry("which it cannot ask for the list", specPatience, "sandbox::list"),
		Entry("nor for a sandbox", specPatience, "sandbox::create"),
		Entry("nor to run something", specPatience, "sandbox::exec"),
		Entry("nor to stop one", specPatience, "sandbox::stop"),
		Entry("nor for a file", specPatience, "sandbox::fs::read"),
		Entry("and it cannot bind routes either", specPatience, "engine::register_trigger"),
	)

	It("does not see the daemon's functions, and cannot take the operator's", func(ctx SpecContext) {
		answer := runOnBus(ctx, m{"lang": "node", "timeout_ms": 20_000, "code": `
const { functions } = await iii.trigger({ function_id: 'engine::functions::list', payload: {} });
const ids = functions.map((f) => f.function_id);
console.log(ids.includes('sandbox-code-runner::run'), ids.some((id) => id.startsWith('sandbox::')));
iii.registerFunction('sandbox-code-runner::run', async () => 'stolen');
iii.registerFunction('sandbox::list', async () => 'stolen');
await new Promise((done) => setTimeout(done, 300));
`})
		Expect(answer.Stdout).To(Equal("true false\n"), answer.Stderr)
		Expect(runOnBus(ctx, m{"lang": "node", "code": "console.log('mine')"}).Stdout).To(Equal("mine\n"))
		Expect(countSandboxes(ctx)).Error().NotTo(HaveOccurred())
	}, specPatience)
})
