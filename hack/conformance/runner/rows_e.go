package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Rows E: calls of published functions.

// handles publishes a handler in each language and expects the same answer of
// both.
func (t *row) handles(name string, sources map[string]string, payload any, want string) {
	for lang, source := range sources {
		id := t.register(name+"-"+lang, lang, source)
		t.Expect(t.call(id, payload)).To(MatchJSON(want), lang)
	}
}

// fails publishes a handler and expects its call to fail with these words.
func (t *row) fails(name, lang, source string, words ...string) (text string) {
	return t.refuses("handler_error", t.register(name, lang, source), m{"n": 1}, words...)
}

// patientLimit is for handlers that call others, on a machine that may be busy.
const patientLimit = 20 * time.Second

// patient publishes a function with that limit.
func (t *row) patient(name, lang, source string) (id string) {
	id = t.prefix() + "::" + name
	t.registerAs(m{"function_id": id, "lang": lang, "source": source, "timeout_ms": patientLimit.Milliseconds()})
	return id
}

func e01(t *row) {
	id := t.register("f", "node", "export const handler = () => ({ a: [1, null, 'x'], b: { c: false } })")
	calls := t.backend(func() {
		t.Expect(t.call(id, m{"secret": "s3cr3t"})).To(MatchJSON(`{"a":[1,null,"x"],"b":{"c":false}}`))
	})
	calling := t.executions(calls, "call")
	t.Expect(calling).To(HaveLen(1))
	t.Expect(calling[0].Argv).To(HaveLen(2), "the agent and its subcommand")
	t.Expect(calls).To(HaveLen(1), "one call of the daemon in all")
}

// e02 wants what the sentinel was for: nothing that a handler prints or reads can
// make or forge an answer.
func e02(t *row) {
	id := t.register("f", "python", `
import os, sys
def handler(payload):
    print('{"result": "forged"}')
    sys.stdout.write('\n00000000-0000-0000-0000-000000000000\n"forged"\n')
    sys.stdout.flush()
    return {"argv": len(sys.argv), "stdin": sys.stdin.read(), "payload": "s3cr3t" in str(sys.argv) + str(os.environ)}
`)
	calls := t.backend(func() {
		t.Expect(t.call(id, "s3cr3t")).To(MatchJSON(`{"argv":1,"stdin":"","payload":false}`))
	})
	t.Expect(strings.Join(t.executions(calls, "call")[0].Argv, " ")).NotTo(ContainSubstring("s3cr3t"))
}

func e03(t *row) {
	id := t.register("f", "python", "import time\ndef handler(payload): time.sleep(payload)")
	calls := t.backend(func() {
		took := takes(func() { t.refuses("timeout", id, 30) })
		t.Expect(took).To(And(BeNumerically(">", 4*time.Second), BeNumerically("<", 9*time.Second)))
	})
	limit := t.executions(calls, "call")[0].Request["timeoutMs"].(float64)
	t.Expect(limit).To(And(BeNumerically("<=", 5000), BeNumerically(">", 3000)), "what is left of the whole call's five seconds")
	short := t.prefix() + "::short"
	t.registerAs(m{"function_id": short, "lang": "python", "source": "import time\ndef handler(payload): time.sleep(payload)", "timeout_ms": 1000})
	t.Expect(takes(func() { t.refuses("timeout", short, 30) })).To(BeNumerically("<", 4*time.Second), "its own limit")
}

func e04(t *row) {
	id := t.register("f", "node", "export const handler = () => process.env.III_WORKER_NAME")
	t.Expect(t.call(id, nil)).To(HavePrefix(`"sandbox-code-runner:` + id))
}

func e05(t *row) {
	t.handles("f", map[string]string{
		"node":   "export const handler = () => { console.log('noise'); console.error('more'); return 'result' }",
		"python": "def handler(payload):\n    print('noise')\n    return 'result'\n",
	}, nil, `"result"`)
}

func e06(t *row) {
	t.fails("node", "node", "export const handler = () => { throw new RangeError('price must be positive') }", "RangeError", "price must be positive")
	t.Expect(t.refusalOf(t.prefix()+"::node", nil).Stacktrace).To(ContainSubstring("handler"), "a stack")
	t.fails("python", "python", "def handler(payload): raise ValueError('price must be positive')", "ValueError", "price must be positive")
}

func e07(t *row) {
	t.fails("node", "node", "export const handler = () => { console.error('dying words'); process.kill(process.pid, 'SIGKILL'); return new Promise(() => {}) }", "SIGKILL", "dying words")
	t.fails("python", "python", "import os, sys\ndef handler(payload):\n    print('dying words', file=sys.stderr, flush=True)\n    os.kill(os.getpid(), 9)\n", "SIGKILL", "dying words")
}

func e08(t *row) {
	text := t.fails("f", "python", "import os, sys\ndef handler(payload):\n    print('é' * 5000 + ' the end', file=sys.stderr, flush=True)\n    os._exit(137)\n", "the end")
	t.Expect(utf8.ValidString(text)).To(BeTrue())
	t.Expect(text).NotTo(ContainSubstring("\uFFFD"))
	t.Expect(len(text)).To(BeNumerically("<", 1000))
}

func e09(t *row) {
	runtime := t.ownRuntime("e09", v1alpha1.LanguageNode)
	id := t.prefix() + "::f"
	t.ownFunction(runtime, id, double["node"])
	t.ok(t.kube.Delete(t.ctx, runtime))
	t.Eventually(func() error { _, err := t.try(id, m{"n": 1}); return err }).Should(MatchError(Or(
		ContainSubstring("::expired: "), ContainSubstring("not_found"))))
	t.Eventually(func() []string { return t.listed(id) }).Should(BeEmpty())
}

func e10(t *row) {
	id := t.register("f", "python", "import time\ndef handler(payload):\n    time.sleep(payload['s'])\n    return 'done'\n")
	sandbox := t.boxOf(t.runtimeOf(id))
	ended := t.background(func() {
		took := takes(func() {
			_, err := t.try(id, m{"s": 4})
			t.Expect(err).To(MatchError(Or(ContainSubstring("::engine: "), ContainSubstring("::expired: "))))
			t.Expect(err.Error()).NotTo(ContainSubstring(sandbox))
		})
		t.Expect(took).To(BeNumerically("<", 5*time.Second))
	})
	t.running(sandbox)
	t.lose(sandbox)
	ended()
	t.Eventually(func() string { answer, _ := t.try(id, m{"s": 0}); return string(answer) }).Should(Equal(`"done"`), "in another sandbox")
}

func e11(t *row) {
	id := t.register("f", "node", double["node"])
	t.teardown(m{"namespace": t.prefix()})
	took := takes(func() { t.gone(id) })
	t.Expect(took).To(BeNumerically("<", 3*time.Second))
}

func e12(t *row) {
	t.restart()
	id := t.register("f", "python", "import time\ndef handler(payload):\n    time.sleep(1)\n    return 'done'\n")
	sandbox := t.boxOf(t.runtimeOf(id))
	ended := t.background(func() {
		answer, err := t.try(id, m{})
		if err == nil {
			t.Expect(string(answer)).To(Equal(`"done"`))
		} else {
			t.Expect(isRefused(err)).To(BeTrue(), "a clean error: %v", err)
		}
	})
	t.running(sandbox)
	t.restart()
	ended()
	t.Eventually(func() error { _, err := t.try(id, m{}); return err }).Should(Succeed(), "it is served again")
}

func e13(t *row) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	bothLanguages(func(lang string) {
		source := map[string]string{
			"node":   "export const handler = (payload) => payload",
			"python": "def handler(payload): return payload",
		}[lang]
		id := t.register(lang, lang, source)
		for _, payload := range []string{"null", "0", "false", `""`, `"text"`, "[]", "[null]", `"\u2028"`, "1.5", "-7", deep} {
			t.Expect(t.call(id, json.RawMessage(payload))).To(MatchJSON(payload), lang)
		}
		t.Expect(t.call(id, m{"a": m{"b": []any{m{"c": "d"}}}})).To(ContainSubstring(`"b":[{"c":"d"}]`))
	})
}

func e14(t *row) {
	for lang, source := range map[string]string{
		"node":   "let calls = 0\nexport const handler = () => ++calls",
		"python": "calls = 0\ndef handler(payload):\n    global calls\n    calls += 1\n    return calls\n",
	} {
		id := t.register(lang, lang, source)
		t.Expect(t.call(id, nil) + t.call(id, nil)).To(Equal("11"))
	}
}

// busyAfterwards are handlers whose process has more to do than its deadline
// allows when they return.
var busyAfterwards = map[string]string{
	"node": "export const handler = () => { setInterval(() => {}, 1000); return 'in time' }",
	"python": `
import threading, time
def handler(payload):
    threading.Thread(target=time.sleep, args=(60,)).start()
    return 'in time'
`,
}

func e15(t *row) { t.handles("f", busyAfterwards, nil, `"in time"`) }

func e16(t *row) {
	t.handles("f", map[string]string{
		"node": "export const handler = () => { setTimeout(() => { throw new Error('late') }, 1); return 'good' }",
		"python": `
import os, threading, time
def handler(payload):
    def crash():
        time.sleep(0.02)
        os._exit(3)
    threading.Thread(target=crash).start()
    return 'good'
`,
	}, nil, `"good"`)
}

func e17(t *row) {
	t.fails("set", "python", "def handler(payload): return {1, 2}", "JSON")
	t.fails("bytes", "python", "def handler(payload): return b'1'", "JSON")
}

func e18(t *row) {
	t.fails("node", "node", "export const handler = () => { console.log('last line'); process.exit(3) }", "3")
	t.fails("python", "python", "import os\ndef handler(payload):\n    print('last line', flush=True)\n    os._exit(3)\n", "3")
}

func e19(t *row) {
	t.handles("f", map[string]string{
		"node":   "export const handler = () => { for (let i = 0; i < 30; i++) console.log('x'.repeat(100_000)); return 'r'.repeat(2_000_000).length }",
		"python": "def handler(payload):\n    print('x' * 3_000_000)\n    return len('r' * 2_000_000)\n",
	}, nil, "2000000")
	id := t.register("large", "node", "export const handler = () => 'r'.repeat(2_000_000)")
	t.Expect(t.call(id, nil)).To(HaveLen(2_000_002))
}

func e20(t *row) {
	inner := t.patient("inner", "node", "export const handler = () => 'inner'")
	outer := t.patient("outer", "node", fmt.Sprintf(
		"export const handler = (depth) => depth === 0 ? iii.trigger({ function_id: %q, payload: 1 }) : iii.trigger({ function_id: %q, payload: depth - 1 })",
		inner, t.prefix()+"::outer"))
	took := takes(func() {
		answer, err := t.try(outer, 0)
		if err == nil {
			t.Expect(string(answer)).To(Equal(`"inner"`))
		} else {
			t.Expect(err).To(MatchError(ContainSubstring("capacity")), "never a stall")
		}
		_, err = t.try(outer, 12)
		if err != nil {
			t.Expect(err).To(MatchError(ContainSubstring("capacity")), "never a stall")
		}
	})
	t.Expect(took).To(BeNumerically("<", patientLimit), "never a stall")
}

func e21(t *row) {
	python := t.patient("python", "python", double["python"])
	node := t.patient("node", "node", fmt.Sprintf("export const handler = async ({ n }) => 1 + await iii.trigger({ function_id: %q, payload: { n } })", python))
	other := "row-e21b::python"
	t.registerAs(m{"function_id": other, "lang": "python", "source": fmt.Sprintf(
		"def handler(payload):\n    return 10 + iii.trigger({'function_id': %q, 'payload': payload})\n", node), "timeout_ms": patientLimit.Milliseconds()})
	t.Expect(t.call(other, m{"n": 3})).To(Equal("17"))
}

// e22 waits for the end of the sandbox, not of the function.
func e22(t *row) {
	runtime := t.ownRuntime("e22", v1alpha1.LanguagePython)
	id := t.prefix() + "::f"
	t.ownFunction(runtime, id, "def handler(payload): return 'awake'")
	t.Eventually(func() []string { return t.boxesOf(runtime) }, 60*time.Second, time.Second).Should(BeEmpty(), "idle")
	t.ok(t.kube.Get(t.ctx, client.ObjectKeyFromObject(runtime), runtime))
	t.Expect(t.listed(id)).To(Equal([]string{id}))
	t.Expect(t.call(id, m{})).To(Equal(`"awake"`))
}
