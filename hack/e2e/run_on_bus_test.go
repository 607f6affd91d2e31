package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

var _ = Describe("run on the bus", func() {
	DescribeTable("answers with what the program left", func(ctx SpecContext, lang, code string, exit int, stdout, stderr string) {
		answer := runOnBus(ctx, m{"lang": lang, "code": code})
		Expect(answer.ExitCode).To(Equal(exit), answer.Stderr)
		Expect(answer.Success).To(Equal(exit == 0))
		Expect(answer.Stdout).To(Equal(stdout))
		Expect(answer.Stderr).To(ContainSubstring(stderr))
		Expect(answer.RuntimeID).To(BeNil())
	},
		Entry("in Node", specPatience, "node", "console.log('out'); console.error('err')", 0, "out\n", "err"),
		Entry("in Python", specPatience, "python", "import sys\nprint('out')\nprint('err', file=sys.stderr)", 0, "out\n", "err"),
		Entry("with another exit code, Node", specPatience, "node", "console.log('so far'); process.exit(3)", 3, "so far\n", ""),
		Entry("with another exit code, Python", specPatience, "python", "print('so far', flush=True)\nraise SystemExit(4)", 4, "so far\n", ""),
		Entry("with an error nobody catches, Node", specPatience, "node", "throw new TypeError('bad day')", 1, "", "TypeError: bad day"),
		Entry("with an error nobody catches, Python", specPatience, "python", "raise TypeError('bad day')", 1, "", "TypeError: bad day"),
	)

	DescribeTable("answers with the program's value", func(ctx SpecContext, lang, code string) {
		Expect(string(runOnBus(ctx, m{"lang": lang, "code": code}).Result)).To(MatchJSON(`{"sum":3}`))
	},
		Entry("the default export in Node", specPatience, "node", "export default { sum: 1 + 2 };"),
		Entry("the variable result in Python", specPatience, "python", "result = {'sum': 1 + 2}"),
	)

	DescribeTable("gives the program its input", func(ctx SpecContext, lang, code string) {
		answer := runOnBus(ctx, m{
			"lang": lang, "code": code, "stdin": "from stdin", "args": []string{"an argument"}, "env": m{"GREETING": "hello"},
			"files": []m{{"path": "beside.txt", "content": "beside"}, {"path": "/tmp/e2e/deep.sh", "content": "echo deep", "mode": "0755"}},
		})
		Expect(answer.Stdout).To(Equal("from stdin|an argument|hello|beside|deep\n"), answer.Stderr)
	},
		Entry("in Node", specPatience, "node", `
import { readFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
const deep = execFileSync('/bin/sh', ['-c', '/tmp/e2e/deep.sh']).toString().trim();
console.log([readFileSync(0, 'utf8'), process.argv[2], process.env.GREETING, readFileSync('beside.txt', 'utf8'), deep].join('|'));
`),
		Entry("in Python", specPatience, "python", `
import os, subprocess, sys
deep = subprocess.run(["/bin/sh", "-c", "/tmp/e2e/deep.sh"], capture_output=True, text=True).stdout.strip()
print(sys.stdin.read(), sys.argv[1], os.environ["GREETING"], open("beside.txt").read(), deep, sep="|")
`),
	)

	DescribeTable("ends a program at its deadline", func(ctx SpecContext, lang, code string) {
		_, err := tryCall(ctx, runFunction, m{"lang": lang, "code": code, "timeout_ms": 400})
		Expect(err).To(MatchError(ContainSubstring("sandbox-code-runner::timeout")))
	},
		Entry("a waiting Node program", specPatience, "node", "await new Promise((done) => setTimeout(done, 60000))"),
		Entry("a busy Node program", specPatience, "node", "for (;;);"),
		Entry("a waiting Python program", specPatience, "python", "import time\ntime.sleep(60)"),
		Entry("a Python program that ignores signals", specPatience, "python",
			"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass"),
	)

	// Code over 8 KiB stays in memory; beyond 128 KiB an object could not hold it.
	DescribeTable("takes large code", func(ctx SpecContext, size int) {
		code := "const filler = '" + strings.Repeat("x", size) + "';\nconsole.log(filler.length);"
		Expect(runOnBus(ctx, m{"lang": "node", "code": code}).Stdout).To(Equal(fmt.Sprintf("%d\n", size)))
	},
		Entry("over 8 KiB", specPatience, 9<<10),
		Entry("over 128 KiB", specPatience, 200<<10),
		Entry("close to 1 MiB", specPatience, v1alpha1.MaxSourceBytes-100),
	)

	It("answers with as much of a large output as the bus carries", func(ctx SpecContext) {
		answer := runOnBus(ctx, m{"lang": "python", "code": "print('x' * 2_000_000)\nprint('the end')"})
		Expect(answer.Success).To(BeTrue())
		Expect(answer.Stdout).To(HaveSuffix("the end\n"))
		Expect(len(answer.Stdout)).To(BeNumerically("<", 900<<10))
	}, specPatience)

	It("runs eight at once, each in a sandbox of its own", func(ctx SpecContext) {
		const programs = 8
		outputs := make([]string, programs)
		var running sync.WaitGroup
		for i := range programs {
			running.Go(func() {
				defer GinkgoRecover()
				outputs[i] = runAlone(ctx, i)
			})
		}
		running.Wait()
		for i, output := range outputs {
			Expect(output).To(Equal(fmt.Sprintf("alone %d\n", i)))
		}
	}, specPatience)
})

// runAlone runs a program that would see the file of another one in its sandbox.
func runAlone(ctx context.Context, number int) string {
	GinkgoHelper()
	code := `
import os, time
print("alone" if not os.path.exists("/tmp/mark") else "in company", NUMBER)
open("/tmp/mark", "w").close()
time.sleep(0.3)
`
	answer := runOnBus(ctx, m{"lang": "python", "code": strings.Replace(code, "NUMBER", fmt.Sprint(number), 1), "timeout_ms": 20_000})
	Expect(answer.Success).To(BeTrue(), answer.Stderr)
	return answer.Stdout
}
