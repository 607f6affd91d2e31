package e2e

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
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

	DescribeTable("keeps its data channels, whose address comes from that of the bus", func(ctx SpecContext, lang, code string) {
		answer := runOnBus(ctx, m{"lang": lang, "code": code, "timeout_ms": 20_000})
		Expect(string(answer.Result)).To(MatchJSON(`"through"`), answer.Stderr)
	},
		Entry("in Node", specPatience, "node", `
import { createChannel } from 'iii-sdk/helpers';
const { writer, reader } = await createChannel(iii, 4);
writer.stream.end('through');
export default (await reader.readAll()).toString();
`),
		Entry("in Python", specPatience, "python", `
import asyncio
from iii.helpers import create_channel
channel = create_channel(iii, 4)
async def through():
    await channel.writer.write(b'through')
    await channel.writer.close_async()
    return (await channel.reader.read_all()).decode()
result = asyncio.run(through())
`),
	)

	It("has a credential of its own, which ends with its sandbox and shows nowhere", func(ctx SpecContext) {
		tokens := []string{}
		for range 2 {
			answer := runOnBus(ctx, m{"lang": "node", "code": "export default new URL(process.env.III_URL).searchParams.get('token')"})
			var token string
			Expect(json.Unmarshal(answer.Result, &token)).To(Succeed())
			Expect(token).To(HavePrefix("sog1."))
			Expect(tokens).NotTo(ContainElement(token), "two sandboxes have one credential")
			observed.addSecret(token)
			tokens = append(tokens, token)
		}
		Expect(refusalOf(ctx, running.GuestBusURL)).To(Equal("AUTH_ERROR"), "without a credential")
		Expect(refusalOf(ctx, running.GuestBusURL+"/?token="+tokens[0]+"x")).To(Equal("AUTH_ERROR"), "with a changed one")
		Expect(refusalOf(ctx, running.GuestBusURL+"/?token="+tokens[0])).To(Equal("AUTH_ERROR"), "after the end of its sandbox")
	}, specPatience)

	It("does not leave its credential in the status of a run that prints it", func(ctx SpecContext) {
		run := newRun(newNamespace(ctx), "print", v1alpha1.LanguagePython, "import os\nprint(os.environ['III_URL'])\n")
		run.Spec.Runtime = &v1alpha1.GuestSpec{Network: v1alpha1.AccessEnabled, BusAccess: v1alpha1.AccessEnabled}
		apply(ctx, run)
		waitFor(ctx, run, "Complete", "sbn")
		refresh(ctx, run)
		Expect(run.Status.Stdout).To(ContainSubstring("?token=[redacted]"))
		Expect(run.Status.Stdout).NotTo(ContainSubstring("sog1"))
	}, specPatience)

	It("calls what busAllow lists, and the change of it holds at once", func(ctx SpecContext) {
		namespace, other := newNamespace(ctx), newNamespace(ctx)
		for _, ns := range []string{namespace, other} {
			f := newFunction(ns, "echo", v1alpha1.LanguageNode, nodeEcho)
			apply(ctx, f)
			waitFor(ctx, f, "Ready", "sbf")
		}
		runtime := newRuntime(namespace, "narrow", v1alpha1.LanguageNode)
		runtime.Spec.Network, runtime.Spec.BusAccess = v1alpha1.AccessEnabled, v1alpha1.AccessEnabled
		runtime.Spec.BusAllow = []string{namespace + "::*"}
		apply(ctx, runtime)
		asks := newFunction(namespace, "asks", "", `
export async function handler(ids) {
  const answers = [];
  for (const id of ids) {
    answers.push(await iii.trigger({ function_id: id, payload: 7 }).catch((error) => String(error.code ?? error.message)));
  }
  return answers;
}`)
		asks.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "narrow"}
		apply(ctx, asks)
		waitFor(ctx, asks, "Ready", "sbf")
		ids := []string{namespace + "::echo", other + "::echo", "sandbox::list", "state::list_groups"}
		Expect(call(ctx, asks.Spec.FunctionID, ids)).To(MatchJSON(`[7, "FORBIDDEN", "FORBIDDEN", "FORBIDDEN"]`))
		Eventually(ctx, func(ctx context.Context) *bool {
			refresh(ctx, runtime)
			return runtime.Status.BusIsolated
		}).Should(HaveValue(BeTrue()))

		runtime.Spec.BusAllow = []string{other + "::echo"}
		apply(ctx, runtime)
		Eventually(ctx, func(ctx context.Context) string { return call(ctx, asks.Spec.FunctionID, ids) }).
			Should(MatchJSON(`["FORBIDDEN", 7, "FORBIDDEN", "FORBIDDEN"]`))
	}, specPatience)

	It("cannot take an id or a prefix of others, served or not", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		held := newFunction(namespace, "held", v1alpha1.LanguageNode, nodeEcho)
		held.Spec.Suspend = true
		apply(ctx, held)
		waitFor(ctx, held, "Ready", "sbf")
		answer := runOnBus(ctx, m{"lang": "node", "timeout_ms": 20_000, "code": `
for (const id of ['` + namespace + `::held', '` + namespace + `::other', 'e2e-free::f']) iii.registerFunction(id, async () => 'mine');
for (const id of ['` + namespace + `::held', '` + namespace + `::other', 'e2e-free::f']) {
  console.log(await iii.trigger({ function_id: id, payload: {} }).catch((error) => error.code));
}
`})
		Expect(answer.Stdout).To(Equal("function_not_found\nfunction_not_found\nmine\n"), answer.Stderr)
	}, specPatience)

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

// refusalOf connects to a listener that is expected to let nobody in, and returns
// the code of its refusal.
func refusalOf(ctx context.Context, address string) string {
	GinkgoHelper()
	client, err := bus.New(bus.Options{URL: address, Name: "e2e-stranger"})
	Expect(err).NotTo(HaveOccurred())
	said := make(chan bus.Event, 16)
	client.Subscribe(func(e bus.Event) {
		select {
		case said <- e:
		default: // the first one counts
		}
	})
	runCtx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(runCtx) }()
	defer func() {
		cancel()
		Expect(<-ended).To(Succeed())
	}()
	var first bus.Event
	Eventually(ctx, said).Should(Receive(&first))
	Expect(first.Kind).To(Equal(bus.WorkerRejected))
	return bus.RemoteCode(first.Err)
}
