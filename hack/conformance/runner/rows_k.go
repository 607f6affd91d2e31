package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Rows K: schemas, catalog, configuration.

// schema compiles one of a function's schemas.
func (t *row) schema(function, which string) *jsonschema.Schema {
	document := t.info(function)[which]
	t.Expect(document).NotTo(BeNil(), "%s of %s", which, function)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	t.ok(compiler.AddResource("schema.json", document))
	return must(compiler.Compile("schema.json"))
}

// accepts says what the published request schema makes of a payload.
func (t *row) accepts(function string, payload m, want bool) {
	matcher := Succeed()
	if !want {
		matcher = HaveOccurred()
	}
	t.Expect(t.schema(function, "request_schema").Validate(payload)).To(matcher, "%v", payload)
}

func k01(t *row) {
	functions, _ := t.operatorTap.registered()
	own := slices.DeleteFunc(functions, func(id string) bool { return !slices.Contains(ownIDs, id) })
	t.Expect(len(own)).To(BeNumerically(">=", len(ownIDs)))
	t.Expect(own[:len(ownIDs)]).To(Equal(ownIDs))
	t.Expect(t.listed(workerName + "::")).To(ContainElements(ownIDs))
}

func k02(t *row) {
	published := t.listed(workerName + "::")
	t.Expect(published).To(ContainElements(ownIDs))
	t.reserved(append(slices.Clone(ownIDs), lateIDs...))
	for _, id := range published {
		t.refuses("invalid_request", registerID, m{"function_id": id, "lang": "node", "source": double["node"]})
	}
}

func k03(t *row) {
	for _, function := range ownIDs {
		for _, which := range []string{"request_schema", "response_schema"} {
			t.schema(function, which)
			document := t.info(function)[which].(m)
			t.Expect(document).To(HaveKeyWithValue("$schema", ContainSubstring("draft-07")))
			t.typed(function, document)
			t.Expect(t.info(function)[which]).To(Equal(any(document)), "stable")
		}
	}
}

// typed expects a schema and those of its properties never to be "any".
func (t *row) typed(where string, schema m) {
	keys := []string{"type", "properties", "$ref", "enum", "oneOf", "anyOf"}
	t.Expect(slices.ContainsFunc(keys, func(key string) bool { return schema[key] != nil })).To(BeTrue(), where)
	properties, _ := schema["properties"].(m)
	for name, each := range properties {
		t.typed(where+"."+name, each.(m))
	}
}

func k04(t *row) {
	t.Expect(t.info(runID)["request_schema"].(m)["required"]).To(Equal([]any{"code"}))
	t.Expect(t.info(registerID)["request_schema"].(m)["required"]).To(ConsistOf("function_id", "lang", "source"))
	t.accepts(runID, m{"code": "1"}, true)
	t.accepts(runID, m{"lang": "node"}, false)
	t.accepts(runID, m{"code": "1", "lang": nil, "runtime_id": nil, "timeout_ms": nil, "network": true}, true)
	t.accepts(registerID, m{"function_id": "a::b", "lang": "node", "source": "x", "description": nil}, true)
	t.accepts(registerID, m{"function_id": "a::b", "source": "x"}, false)
}

// helpOf is what the operator's help says of a flag, its default included.
func (t *row) helpOf(flag string) string {
	_, output := t.manager("--help")
	_, text, found := strings.Cut(output, "  -"+flag)
	t.Expect(found).To(BeTrue(), "the flag %s", flag)
	text, _, _ = strings.Cut(text, "\n  -")
	return text
}

func k05(t *row) {
	for flag, value := range map[string]string{"default-timeout": "5s", "max-timeout": "30s", "idle-timeout": "15m0s"} {
		t.Expect(t.helpOf(flag)).To(ContainSubstring("(default " + value + ")"))
	}
	endless := m{"lang": "python", "code": "1"}
	most := m{"lang": "python", "code": "1", "timeout_ms": 1_000_000}
	t.restart("--default-timeout=2s")
	t.Expect([]int{t.programLimit(endless), t.programLimit(most)}).To(Equal([]int{2_000, 30_000}))
	t.restart("--default-timeout=2s", "--max-timeout=7s", "--idle-timeout=45s")
	t.Expect([]int{t.programLimit(endless), t.programLimit(most)}).To(Equal([]int{2_000, 7_000}))
}

func k06(t *row) {
	manifest := string(must(os.ReadFile(filepath.Join(t.root, "config", "manager", "manager.yaml"))))
	for flag, value := range map[string]string{"default-timeout": "5s", "max-timeout": "30s", "idle-timeout": "900s", "inject-guidance": "true"} {
		_, given, found := strings.Cut(manifest, "--"+flag+"=")
		if found {
			t.Expect(strings.TrimRight(strings.Fields(given)[0], `"'`)).To(Equal(value), "the Deployment's flag is the default")
		}
	}
}

// hooks is how often the operator asked for the hook of the guidance so far.
func (t *row) hooks() int {
	_, triggers := t.operatorTap.registered()
	return len(slices.DeleteFunc(triggers, func(kind string) bool { return kind != "harness::hook::pre-generate" }))
}

func k07(t *row) {
	t.Expect(t.helpOf("inject-guidance")).To(ContainSubstring("(default true)"))
	before := t.hooks()
	t.restart("--inject-guidance=false")
	t.Expect(t.hooks()).To(Equal(before))
	t.restart("--inject-guidance=true")
	t.Eventually(t.hooks).Should(BeNumerically(">", before))
}

// prompt is what the guidance hook makes of a payload.
func (t *row) prompt(payload any) (mutations m) {
	var got struct {
		Mutations m `json:"mutations"`
	}
	t.ok(json.Unmarshal([]byte(t.call(guidanceID, payload)), &got))
	t.Expect(got.Mutations).NotTo(BeNil())
	return got.Mutations
}

func k08(t *row) {
	got := t.prompt(m{"generate": m{"system_prompt": "You are kind."}})
	t.Expect(got["system_prompt"]).To(HavePrefix("You are kind.\n\n"))
	t.Expect(len(got["system_prompt"].(string))).To(BeNumerically(">", 200))
	for _, payload := range []any{m{}, m{"generate": m{}}, m{"generate": m{"system_prompt": ""}}} {
		t.Expect(t.prompt(payload)).To(BeEmpty())
	}
}

func k09(t *row) {
	text := t.prompt(m{"generate": m{"system_prompt": "x"}})["system_prompt"].(string)
	for _, word := range []string{runID, registerID, teardownID, listID, "keep", "runtime_id", "secret", "handler(payload)", "expired", "namespace", "iii.trigger", "die", "network", "one-shot"} {
		t.Expect(text).To(ContainSubstring(word))
	}
	for _, removed := range []string{"::eval", "--config", "network: true"} {
		t.Expect(text).NotTo(ContainSubstring(removed))
	}
}

// k10 wants what the manifest was for: a person learns of all settings and their
// defaults without a bus or a cluster.
func k10(t *row) {
	code, output := t.manager("--help")
	t.Expect(code).To(BeZero())
	for _, flag := range []string{"bus-url", "worker-name", "runs-namespace", "default-timeout", "max-timeout", "idle-timeout", "leader-elect"} {
		t.Expect(output).To(ContainSubstring("  -" + flag))
	}
	t.Expect(t.info(runID)).To(HaveKeyWithValue("description", Not(BeEmpty())))
	t.Expect(t.info(runID)).To(HaveKeyWithValue("worker_name", workerName))
}

func k11(t *row) {
	for _, flag := range []string{"--idle-ttl-secs=5", "--no-such-flag"} {
		code, output := t.manager(flag)
		t.Expect(code).NotTo(BeZero())
		t.Expect(output).To(ContainSubstring("flag provided but not defined"))
	}
}

func k12(t *row) {
	got := t.run(m{"lang": "python", "code": "print('head' + 'é' * 2_000_000 + 'tail')", "timeout_ms": 20_000})
	t.Expect(got.Truncated).To(BeTrue())
	t.Expect(got.Stdout).To(And(HavePrefix("head"), HaveSuffix("tail\n")))
	t.Expect(utf8.ValidString(got.Stdout)).To(BeTrue())
	t.Expect(got.Stdout).NotTo(ContainSubstring("\uFFFD"))
	head, tail, marked := strings.Cut(got.Stdout, "left out")
	t.Expect(marked).To(BeTrue(), "a mark between head and tail")
	t.Expect(float64(len(head)) / float64(len(head)+len(tail))).To(BeNumerically("~", 0.6, 0.01))
	got = t.run(m{"lang": "python", "code": "result = 'x' * 3_000_000", "timeout_ms": 20_000})
	t.Expect(got.Success).To(BeTrue())
	t.Expect(got.Truncated).To(BeTrue())
	t.Expect(len(got.Result)).To(BeNumerically("<", 900<<10))
}

func k13(t *row) {
	t.restart()
	id := t.keepAfter("python", "open('/tmp/kept', 'w').write('kept')")
	t.restart("--default-timeout=1s")
	t.Expect(t.programLimit(m{"lang": "python", "code": "1"})).To(Equal(1_000))
	t.Expect(t.in(id, "print(open('/tmp/kept').read())").Stdout).To(Equal("kept\n"))
}

func k14(t *row) {
	t.prints("node", `
import { createRequire } from 'node:module'
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
const sdk = await import('iii-sdk')
const entry = createRequire(import.meta.url).resolve('iii-sdk')
let root = dirname(entry)
while (!readdirSync(root).includes('package.json')) root = dirname(root)
const manifest = JSON.parse(readFileSync(root + '/package.json'))
let size = 0
for (const each of readdirSync(root, { recursive: true })) size += statSync(root + '/' + each).size
console.log(typeof sdk.registerWorker, size > 100_000, manifest.name, /^\d+\.\d+\.\d+/.test(manifest.version))`,
		"function true iii-sdk true\n")
}

func k15(t *row) {
	t.prints("python", `
import os
shadows = []
for folder, folders, names in os.walk('/sandbox-operator'):
    if os.path.basename(folder) in ('python-packages', 'node_modules'):
        folders.clear()
        continue
    shadows += [name for name in names if name in ('iii.py', 'iii_sdk.py')]
print(shadows)
import iii
print(iii.__file__.endswith('/iii/__init__.py'))`, "[]\nTrue\n")
	for _, folder := range []string{"/tmp/a", "/srv/b/c"} {
		t.prints("node", fmt.Sprintf(`
import { mkdirSync, writeFileSync } from 'node:fs'
mkdirSync('%[1]s', { recursive: true })
writeFileSync('%[1]s/m.mjs', "export { registerWorker } from 'iii-sdk'")
console.log(typeof (await import('%[1]s/m.mjs')).registerWorker)`, folder), "function\n")
	}
}
