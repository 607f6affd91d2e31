package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Rows G: the global iii.

// echo serves a function that answers with its payload, by a worker outside.
func (t *row) echo() (id string) {
	id = t.prefix() + "::echo"
	t.serve(t.worker(), id, "delete payload._caller_worker_id; return payload")
	return id
}

// using is a program that calls a function once and prints the answer.
func using(lang, id string) string {
	if lang == "node" {
		return fmt.Sprintf("console.log(JSON.stringify(await iii.trigger({ function_id: %q, payload: { a: 1 } })))\n", id)
	}
	return fmt.Sprintf("import json\nprint(json.dumps(iii.trigger({'function_id': %q, 'payload': {'a': 1}}), separators=(',', ':')))\n", id)
}

// connections is how many workers came to the bus while an act went on.
func (t *row) connections(act func()) int {
	watcher := t.worker()
	id := t.prefix() + fmt.Sprintf("::watch%d", t.workers)
	t.serve(watcher, id, "return null")
	must(t.callers.do(t.ctx, "bind", m{"worker": watcher, "binding": id, "type": "engine::workers-available", "function_id": id, "config": m{}}))
	act()
	// One more worker, so that all who came before it have been told of.
	last := t.worker()
	must(t.tryAs(last, "engine::functions::list", m{"prefix": "none"}))
	lastID := t.present()[last]
	t.Eventually(func() string { return string(joined(t.callers.received(id))) }).Should(ContainSubstring(lastID))
	return strings.Count(string(joined(t.callers.received(id))), `"worker_connected"`) - 1
}

func joined(events []json.RawMessage) (all []byte) {
	for _, each := range events {
		all = append(all, each...)
	}
	return all
}

// whoami serves a function that tells its caller's worker name.
func (t *row) whoami() (id string) {
	id = t.prefix() + "::whoami"
	// A client calls before it has said its name.
	t.serve(t.worker(), id, `
for (let tries = 0; tries < 200; tries++) {
  const { workers } = await iii.trigger({ function_id: 'engine::workers::list', payload: {} })
  const caller = workers.find((w) => w.id === payload._caller_worker_id)
  if (caller?.name) return caller.name
  await new Promise((resolve) => setTimeout(resolve, 20))
}
return 'nobody'`)
	return id
}

// present are the workers on the bus: their ids by name.
func (t *row) present() map[string]string {
	var list struct {
		Workers []struct {
			Name string `json:"name"`
			ID   string `json:"id"`
		} `json:"workers"`
	}
	t.ok(json.Unmarshal(must(t.try("engine::workers::list", m{})), &list))
	ids := map[string]string{}
	for _, w := range list.Workers {
		ids[w.Name] = w.ID
	}
	return ids
}

// guests are the names of the workers on the bus that begin with a word.
func (t *row) guests(beginning string) (names []string) {
	for name := range t.present() {
		if strings.HasPrefix(name, beginning) {
			names = append(names, name)
		}
	}
	return names
}

func g01(t *row) {
	t.Expect(t.connections(func() {
		t.prints("node", "console.log(1)", "1\n")
		t.prints("python", "print(1)", "1\n")
	})).To(BeZero())
}

func g02(t *row) {
	id := t.echo()
	bothLanguages(func(lang string) {
		t.Expect(t.connections(func() { t.prints(lang, using(lang, id)+using(lang, id), "{\"a\":1}\n{\"a\":1}\n") })).To(Equal(1), lang)
		got := t.run(m{"lang": lang, "code": strings.ReplaceAll(using(lang, t.whoami()), "{\"a\":1}", "{}"), "timeout_ms": 20_000})
		t.Expect(got.Stdout).To(HavePrefix(`"sandbox-code-runner:run`), lang)
		t.Eventually(func() []string { return t.guests("sandbox-code-runner:run") }).Should(BeEmpty(), "it has left")
	})
}

func g03(t *row) {
	t.Expect(t.connections(func() {
		t.prints("node", `
import { inspect } from 'node:util'
console.log([inspect(iii), String(iii), `+"`${iii}`"+`].every((text) => text.includes('lazy iii-sdk client')))
console.log(Object.keys(iii).length, 'trigger' in iii, Object.getPrototypeOf(iii) === Object.prototype, iii[Symbol.iterator])`,
			"true\n0 false true undefined\n")
	})).To(BeZero())
}

func g04(t *row) {
	t.prints("node", using("node", t.echo())+"console.log(Object.keys(iii).includes('trigger'), 'trigger' in iii, 'nothing' in iii)", "{\"a\":1}\ntrue true false\n")
}

func g05(t *row) {
	t.Expect(t.connections(func() {
		t.prints("python", "print('lazy iii-sdk client' in repr(iii), dir(iii))", "True []\n")
	})).To(BeZero())
}

func g06(t *row) {
	t.prints("python", using("python", t.echo())+"print('trigger' in dir(iii))", "{\"a\":1}\nTrue\n")
}

func g07(t *row) {
	for language, code := range map[v1alpha1.Language]string{
		v1alpha1.LanguageNode:   "try { await iii.trigger({ function_id: 'a::b' }) } catch (error) { console.log(error.message) }",
		v1alpha1.LanguagePython: "try:\n    iii.trigger({'function_id': 'a::b'})\nexcept RuntimeError as error:\n    print(error)\n",
	} {
		run := t.runObject("g07-"+strings.ToLower(string(language)), language, code)
		t.Expect(run.Status.Stdout).To(ContainSubstring("III_URL is not set"))
	}
}

func g08(t *row) {
	t.prints("node", `
import { readdirSync, rmSync, statSync } from 'node:fs'
for (const base of ['/sandbox-operator', '/node_modules']) {
  for (const entry of readdirSync(base, { recursive: true })) if (entry.endsWith('iii-sdk')) rmSync(base + '/' + entry, { recursive: true, force: true })
}
try { await iii.trigger({ function_id: 'a::b' }) } catch (error) { console.log(error.message.includes('could not be loaded')) }`, "true\n")
}

func g09(t *row) {
	t.prints("python", `
import sys
sys.modules['iii'] = None
try:
    iii.trigger({'function_id': 'a::b', 'payload': 1})
except RuntimeError as error:
    print('not installed in this runtime' in str(error))`, "True\n")
}

func g10(t *row) {
	id := t.whoami()
	sources := map[string]string{
		"node":   fmt.Sprintf("export const handler = async (p) => { console.log('noise'); return { name: await iii.trigger({ function_id: %q, payload: {} }) } }", id),
		"python": fmt.Sprintf("def handler(p):\n    print('noise')\n    return {'name': iii.trigger({'function_id': %q, 'payload': {}})}\n", id),
	}
	for lang, source := range sources {
		published := t.register(lang, lang, source)
		came := t.connections(func() {
			t.Expect(t.call(published, m{})).To(HavePrefix(`{"name":"sandbox-code-runner:` + published))
		})
		t.Expect(came).To(Equal(1), lang)
	}
	t.Eventually(func() []string { return t.guests("sandbox-code-runner:" + t.prefix()) }).Should(BeEmpty(), "they have left")
}

func g11(t *row) {
	id := t.echo()
	bothLanguages(func(lang string) {
		got := t.run(m{"lang": lang, "code": using(lang, id), "timeout_ms": 20_000})
		t.Expect([]string{got.Stdout, got.Stderr}).To(Equal([]string{"{\"a\":1}\n", ""}), lang)
	})
}

func g12(t *row) {
	for lang, code := range map[string]string{
		"node":   "iii.registerFunction('%[1]s', async (n) => 2 * n); console.log(await iii.trigger({ function_id: '%[1]s', payload: 21 }))",
		"python": "iii.register_function('%[1]s', lambda n: 2 * n)\nprint(iii.trigger({'function_id': '%[1]s', 'payload': 21}))",
	} {
		id := t.prefix() + "::own-" + lang
		t.prints(lang, fmt.Sprintf(code, id), "42\n")
		t.Eventually(func() []string { return t.listed(id) }).Should(BeEmpty())
		t.gone(id)
	}
}

func g13(t *row) {
	for lang, c := range map[string]struct{ code, method string }{
		"node":   {"iii.registerFunction()", "registerFunction"},
		"python": {"iii.register_function()", "register_function"},
	} {
		got := t.run(m{"lang": lang, "code": c.code, "timeout_ms": 20_000})
		t.Expect(got.ExitCode).To(Equal(1))
		t.Expect(got.Stderr).To(ContainSubstring(c.method))
		t.Expect(len(got.Stderr)).To(BeNumerically("<", 4000))
	}
}

func g14(t *row) {
	t.prints("node", fmt.Sprintf("const { trigger } = iii; console.log(await trigger({ function_id: %q, payload: 5 }))", t.echo()), "5\n")
}

func g15(t *row) {
	t.Expect(t.connections(func() { t.prints("node", "console.log((await iii) === iii)", "true\n") })).To(BeZero())
}

func g16(t *row) {
	t.Expect(t.connections(func() {
		t.prints("node", "console.log(JSON.stringify({ iii }), Number.isNaN(+iii), iii.toJSON, iii.anything, typeof iii.trigger)", "{\"iii\":{}} true undefined undefined function\n")
		t.prints("python", `
import copy
print(hasattr(iii, 'x'), hasattr(iii, '__len__'), getattr(iii, '__foo__', None), bool(iii))
copy.copy(iii)
`, "False False None True\n")
	})).To(BeZero())
}

// hanging makes the SDK's own shutdown never end, after one use.
var hanging = map[string]string{
	"node":   "iii.constructor.prototype.shutdown = () => new Promise(() => {})\n",
	"python": "import time\nimport iii as sdk, iii.iii\nsdk.iii.III.shutdown = lambda self: time.sleep(600)\n",
}

func g17(t *row) {
	id := t.echo()
	bothLanguages(func(lang string) {
		use := using(lang, id)
		if lang == "python" {
			use = "client = __builtins__.iii\n" + strings.ReplaceAll(use, "iii.trigger", "client.trigger")
		}
		var got answer
		took := takes(func() { got = t.run(m{"lang": lang, "code": use + hanging[lang], "timeout_ms": 25_000}) })
		t.Expect(got.Stdout).To(Equal("{\"a\":1}\n"), got.Stderr)
		t.Expect(took).To(BeNumerically("<", 10*time.Second), lang)
	})
}

func g18(t *row) {
	silent := t.prefix() + "::silent"
	t.serve(t.worker(), silent, "return new Promise(() => {})")
	for lang, code := range map[string]string{
		"node":   "try { await iii.trigger({ function_id: %q, payload: 1, timeoutMs: 60000 }) } catch { console.log('in time') }",
		"python": "try:\n    iii.trigger({'function_id': %q, 'payload': 1, 'timeout_ms': 60000})\nexcept Exception:\n    print('in time')\n",
	} {
		got := t.run(m{"lang": lang, "code": fmt.Sprintf(code, silent), "timeout_ms": 10000})
		t.Expect(got.Stdout).To(Equal("in time\n"), lang)
	}
}

func g19(t *row) {
	near := "sandboxes-g19::echo"
	t.serve(t.worker(), near, "return 'ordinary'")
	t.leavesFleet(func() {
		t.prints("node", fmt.Sprintf(`
const told = (error) => String(error?.code ?? error?.message ?? error).includes('FORBIDDEN')
const refused = async (request) => { try { await iii.trigger(request) } catch (error) { return told(error) } return false }
for (const id of ['sandbox::list', 'sandbox::create', 'sandbox::exec', 'sandbox::fs::read']) {
  console.log(await refused({ function_id: id, payload: { image: 'node' } }))
}
try { await iii.trigger({ function_id: 'sandbox::create', payload: { image: 'node' }, action: { type: 'void' } }) } catch {}
console.log(await refused({ function_id: 'engine::register_trigger', payload: { type: 'cron', function_id: 'sandbox::create', config: { expression: '* * * * * *' } } }))
console.log(await iii.trigger({ function_id: %q, payload: 1 }))
await new Promise((done) => setTimeout(done, 300))`, near), strings.Repeat("true\n", 5)+"ordinary\n")
	})
}

func g20(t *row) {
	id := t.keepAfter("python", `
import os, site
folder = site.getusersitepackages()
os.makedirs(folder, exist_ok=True)
for name in ('run', 'call', 'invoke'):
    open(os.path.join(folder, name + '.py'), 'w').write("value = 'installed'\n")`)
	got := t.in(id, "import run, call, invoke, iii; print(run.value, call.value, invoke.value, hasattr(iii, 'register_worker'))")
	t.Expect(got.Stdout).To(Equal("installed installed installed True\n"), got.Stderr)
	for _, name := range []string{"run", "call", "invoke", "sandbox_json"} {
		got := t.run(m{"lang": "python", "code": "import " + name + "; print(" + name + ".value)", "files": []m{{"path": name + ".py", "content": "value = 'mine'\n"}}})
		t.Expect(got.Stdout).To(Equal("mine\n"), got.Stderr)
	}
}
