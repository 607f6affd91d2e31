package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// Rows F: how handlers are run.

func f01(t *row) {
	t.handles("f", map[string]string{
		"node":   "export function handler(payload) { console.log('a log'); return { got: payload } }",
		"python": "def handler(payload):\n    print('a log')\n    return {'got': payload}\n",
	}, []int{1}, `{"got":[1]}`)
}

func f02(t *row) {
	t.handles("f", map[string]string{
		"node":   "export const handler = async (n) => { await new Promise((done) => setTimeout(done, 20)); return n + 1 }",
		"python": "import asyncio\nasync def handler(n):\n    await asyncio.sleep(0.02)\n    return n + 1\n",
	}, 1, "2")
}

func f03(t *row) {
	t.fails("error", "node", "export const handler = () => { throw new TypeError('no number') }", "TypeError", "no number")
	t.fails("text", "node", "export const handler = () => { throw 'a bare text' }", "a bare text")
	t.fails("late", "node", "export const handler = async () => { await null; throw new Error('rejected') }", "rejected")
}

func f04(t *row) {
	t.fails("f", "python", "def handler(payload): return {}['missing']", "KeyError", "missing")
}

func f05(t *row) {
	t.refusesSource("node", "export default (payload) => payload\n", "handler")
	t.refusesSource("python", "def handle(payload): return payload\n", "handler")
}

func f06(t *row) {
	t.Expect(t.call(t.register("f", "python", "async def handler(payload): return 'awaited'"), nil)).To(Equal(`"awaited"`))
}

func f07(t *row) {
	t.fails("f", "python", "def handler(payload): return object()", "JSON")
}

func f08(t *row) {
	for name, value := range map[string]string{"function": "() => 1", "symbol": "Symbol('s')", "cycle": "cyclic"} {
		t.fails(name, "node", "const cyclic = {}; cyclic.self = cyclic\nexport const handler = () => "+value)
	}
	t.fails("cycle-python", "python", "cyclic = []\ncyclic.append(cyclic)\ndef handler(payload): return cyclic")
}

func f09(t *row) {
	t.handles("f", map[string]string{"node": "export const handler = () => {}", "python": "def handler(payload): pass"}, 1, "null")
}

func f10(t *row) {
	t.handles("f", map[string]string{
		"node":   "export const handler = (payload) => payload === null",
		"python": "def handler(payload): return payload is None",
	}, nil, "true")
}

// agentReply starts the agent in a sandbox with anything as its input.
func (t *row) agentReply(sandbox, verb, input string) (reply wire.Reply, err error) {
	program := must(guest.Program())
	text := t.call("sandbox::exec", m{
		"sandbox_id": sandbox, "argv": []string{program.Path(), verb}, "stdin": base64.StdEncoding.EncodeToString([]byte(input)), "timeout_ms": 10_000,
	})
	var got struct {
		Stdout   string `json:"stdout"`
		ExitCode int    `json:"exit_code"`
	}
	t.ok(json.Unmarshal([]byte(text), &got))
	return wire.DecodeReply([]byte(got.Stdout))
}

// refusesInput expects the agent to start nothing and to say why.
func (t *row) refusesInput(inputs ...string) {
	sandbox := t.boxOf(t.kept(t.keep("python")))
	for _, verb := range []string{"call", "run"} {
		for _, input := range inputs {
			reply, err := t.agentReply(sandbox, verb, input)
			if err == nil {
				t.Expect(reply).To(HaveField("Error.Kind", wire.BadRequest), "%s with %q", verb, input)
			}
			t.Expect(reply.Result).To(BeEmpty())
			t.Expect(reply.Run).To(BeNil())
		}
	}
}

func f11(t *row) { t.refusesInput("{", "not JSON", `{"language":`) }

func f12(t *row) { t.refusesInput("") }

func f13(t *row) {
	t.refusesInput("[]", "7", `"text"`, "{}", `{"language":"python"}`, `{"language":"ruby","source":"1","timeoutMs":1000}`)
}

func f14(t *row) {
	t.handles("f", map[string]string{
		"node": "export const handler = () => { setTimeout(() => console.log('late'), 30); return 'result' }",
		"python": `
import threading, time
def later():
    time.sleep(0.05)
    print('late', flush=True)
def handler(payload):
    threading.Thread(target=later).start()
    return 'result'
`,
	}, nil, `"result"`)
}

func f15(t *row) {
	t.fails("node", "node", "export const handler = () => process.exit(0)", "0")
	t.fails("python", "python", "import os\ndef handler(payload): os._exit(0)", "0")
}

func f16(t *row) {
	t.fails("f", "python", "import sys\ndef handler(payload): sys.exit(4)", "SystemExit")
}

func f17(t *row) {
	id := t.register("f", "node", "export const handler = () => new Promise(() => {})")
	took := takes(func() { t.refuses("handler_error", id, nil, "promise") })
	t.Expect(took).To(BeNumerically("<", 4*time.Second), "before its deadline")
}

func f18(t *row) {
	t.handles("f", map[string]string{
		"python": `
import re, sys
def handler(payload):
    secret = re.compile(r'^[0-9a-f]{8}-[0-9a-f]{4}|^[0-9a-f]{32}$')
    main = vars(sys.modules['__main__'])
    return [name for name, value in main.items() if isinstance(value, str) and secret.match(value)]
`,
	}, nil, "[]")
}

// prints and results come apart, whatever the prints look like.
func (t *row) apart(name, output string) {
	t.handles(name, map[string]string{
		"node":   fmt.Sprintf("export const handler = () => { process.stdout.write(%q); return 'result' }", output),
		"python": fmt.Sprintf("import sys\ndef handler(payload):\n    sys.stdout.write(%q)\n    return 'result'\n", output),
	}, nil, `"result"`)
}

func f19(t *row) { t.apart("f", "noise\n\nmore noise\n") }
func f20(t *row) { t.apart("f", "") }

func f21(t *row) {
	text := t.fails("node", "node", "export const handler = () => { console.error('so far'); process.exit(5) }", "5", "so far")
	t.Expect(text).NotTo(ContainSubstring("undefined"))
	t.fails("python", "python", "import os, sys\ndef handler(payload):\n    print('so far', file=sys.stderr, flush=True)\n    os._exit(5)\n", "5", "so far")
}

func f22(t *row) {
	t.apart("f", "text SANDBOX-AGENT-REPLY/1 12 abc text\n{\"result\":\"forged\"}\n")
	t.apart("begins", "SANDBOX-AGENT-REPLY/1 19 abc\n{\"result\":\"forged\"}\n")
}

func f23(t *row) {
	t.handles("f", map[string]string{
		"node":   "export const handler = () => { process.on('exit', () => console.log('\"after\"')); return 'result' }",
		"python": "import atexit\natexit.register(print, '\"after\"')\ndef handler(payload): return 'result'\n",
	}, nil, `"result"`)
}

// f24 lets a handler write to all descriptors that it has.
func f24(t *row) {
	id := t.register("forger", "python", `
import os
def handler(payload):
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b'{"result": "forged"}\n')
        except OSError:
            pass
    return "own"
`)
	if answer, err := t.try(id, nil); err == nil {
		t.Expect(json.Valid(answer)).To(BeTrue())
	} else {
		t.isRefusal(err, "handler_error", nil)
	}
	honest := t.register("honest", "python", "def handler(payload): return payload")
	t.Expect(t.call(honest, []int{1, 2})).To(Equal("[1,2]"))
}

func f25(t *row) {
	bothLanguages(func(lang string) {
		id := t.keepAfter(lang, "1")
		t.Expect(t.in(id, agentDigest[lang]).Stdout).To(Equal(t.agent()+"\n"), "what a later program finds")
	})
}

func f26(t *row) {
	payload := strings.Repeat("p", 3_000_000)
	t.handles("f", map[string]string{
		"node":   "export const handler = (text) => { for (let i = 0; i < 20; i++) console.log('x'.repeat(100_000)); return text.length }",
		"python": "def handler(text):\n    print('x' * 2_000_000)\n    return len(text)\n",
	}, payload, "3000000")
}

func f27(t *row) {
	t.handles("f", map[string]string{
		"node":   `export const handler = () => 'a\nb\r\nc\u2028d\u2029e\u0000f'`,
		"python": `def handler(payload): return 'a\nb\r\nc\u2028d\u2029e\u0000f'`,
	}, nil, `"a\nb\r\nc\u2028d\u2029e\u0000f"`)
}

func f28(t *row) {
	for lang, source := range map[string]string{
		"node": `export const handler = () => 'a\ud800b'`, "python": `def handler(payload): return 'a\ud800b'`,
	} {
		id := t.register(lang, lang, source)
		first := t.outcomeOf(id)
		t.Expect(first).To(Or(Equal("answer: \"a\uFFFDb\""), ContainSubstring("::handler_error: ")), lang)
		t.Expect(t.outcomeOf(id)).To(Equal(first), "the same every time")
	}
}

// outcomeOf is what a call came to, as one text.
func (t *row) outcomeOf(id string) string {
	answer, err := t.try(id, nil)
	if err != nil {
		var refused *refusal
		t.Expect(errors.As(err, &refused)).To(BeTrue())
		return refused.Message
	}
	var text string
	t.ok(json.Unmarshal(answer, &text))
	return fmt.Sprintf("answer: %q", text)
}

func f29(t *row) {
	for name, value := range map[string]string{"nan": "float('nan')", "infinity": "[float('inf')]"} {
		t.fails(name, "python", "def handler(payload): return "+value, "JSON")
	}
	t.Expect(t.call(t.register("node", "node", "export const handler = () => NaN"), nil)).To(Equal("null"))
}

// f30 lets Python do the calls, since the Node client itself rounds.
func f30(t *row) {
	const digits = "1152921504606846977"
	echo := map[string]string{
		"node":   "export const handler = (payload) => payload",
		"python": "def handler(payload): return payload",
	}
	bothLanguages(func(lang string) {
		id := t.register(lang, lang, echo[lang])
		t.prints("python", fmt.Sprintf("print(iii.trigger({'function_id': %q, 'payload': {'n': %s}})['n'])", id, digits), digits+"\n")
	})
}
