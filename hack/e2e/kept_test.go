package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A kept runtime", func() {
	DescribeTable("keeps files, not processes, until its teardown", func(ctx SpecContext, lang, write, read string) {
		id := keepRuntime(ctx, lang, write)
		Expect(countSandboxes(ctx)).To(Equal(1))
		sandboxes := sandboxIDs(ctx)

		answer := runOnBus(ctx, m{"runtime_id": id, "code": read})
		Expect(answer.Stdout).To(Equal("kept\n"), answer.Stderr)
		Expect(equalSecrets([]string{*answer.RuntimeID}, []string{id})).To(BeTrue(), "the answer names another runtime")
		Expect(sandboxIDs(ctx)).To(Equal(sandboxes), "another sandbox")

		Expect(call(ctx, teardownFunction, m{"runtime_id": id})).To(ContainSubstring(`"torn_down":true`))
		expectBusRefusal(ctx, runFunction, m{"runtime_id": id, "code": read}, "runtime_not_found", "unknown runtime_id")
		Eventually(ctx, countSandboxes).Should(BeZero())
	},
		Entry("in Node", specPatience, "node",
			"import { writeFileSync } from 'node:fs'; writeFileSync('note', 'kept'); globalThis.note = 'leaked';",
			"import { readFileSync } from 'node:fs'; console.log(globalThis.note ?? readFileSync('note', 'utf8'))"),
		Entry("in Python", specPatience, "python",
			"open('note', 'w').write('kept')\nimport builtins\nbuiltins.note = 'leaked'",
			"import builtins\nprint(getattr(builtins, 'note', None) or open('note').read())"),
	)

	It("survives a program that fails, and one that passes its deadline", func(ctx SpecContext) {
		id := keepRuntime(ctx, "python", "open('note', 'w').write('kept')")
		Expect(runOnBus(ctx, m{"runtime_id": id, "code": "raise SystemExit(9)"}).ExitCode).To(Equal(9))
		expectBusRefusal(ctx, runFunction, m{"runtime_id": id, "code": "while True: pass", "timeout_ms": 300}, "timeout")
		Expect(runOnBus(ctx, m{"runtime_id": id, "code": "print(open('note').read())"}).Stdout).To(Equal("kept\n"))
	}, specPatience)

	It("is not kept if its program passed the deadline: nobody would know its id", func(ctx SpecContext) {
		expectBusRefusal(ctx, runFunction, m{"lang": "python", "code": "while True: pass", "keep": true, "timeout_ms": 300}, "timeout")
		Eventually(ctx, countSandboxes).Should(BeZero())
		Eventually(ctx, objectsEverywhere).Should(BeEmpty())
	}, specPatience)

	It("runs programs one after another", func(ctx SpecContext) {
		id := keepRuntime(ctx, "python", "pass")
		const program = `
import os, time
try:
    os.mkdir("busy")
except FileExistsError:
    print("together")
else:
    time.sleep(0.3)
    os.rmdir("busy")
    print("alone")
`
		answers := make(chan string, 3)
		for range cap(answers) {
			go func() {
				defer GinkgoRecover()
				answers <- runOnBus(ctx, m{"runtime_id": id, "code": program, "timeout_ms": 20_000}).Stdout
			}()
		}
		for range cap(answers) {
			Eventually(ctx, answers).Should(Receive(Equal("alone\n")))
		}
	}, specPatience)
})
