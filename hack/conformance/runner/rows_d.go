package main

import (
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
)

// Rows D: register_function.

// registration asks for a function that doubles.
func (t *row) registration(name, lang string) m {
	return m{"function_id": t.prefix() + "::" + name, "lang": lang, "source": double[lang]}
}

// nothing expects no trace of a function id: not on the bus and not as an object.
func (t *row) nothing(id string) {
	t.Eventually(func() []string { return t.listed(id) }).Should(BeEmpty())
	t.Eventually(func() string { return t.attempt(func(t *row) { t.function(id) }) }).Should(ContainSubstring("no SandboxFunction has the id"))
}

func d01(t *row) {
	for _, lang := range []string{"node", "python"} {
		request := t.registration(lang, lang)
		request["description"] = "Doubles n, in " + lang + "."
		t.registerAs(request)
		id := request["function_id"].(string)
		t.Expect(t.info(id)).To(HaveKeyWithValue("description", request["description"]))
		t.Expect(t.boxesOf(t.runtimeOf(id))).To(HaveLen(1))
		t.Expect(t.function(id).Status.SourceDigest).To(ContainSubstring(sha(double[lang])), "the source that was planted")
	}
}

func d02(t *row) {
	one, other := t.register("one", "node", double["node"]), t.register("other", "node", double["node"])
	t.Expect(t.runtimeOf(one).UID).To(Equal(t.runtimeOf(other).UID))
	t.Expect(t.boxesOf(t.runtimeOf(one))).To(HaveLen(1))
}

func d03(t *row) {
	one, other := t.register("one", "node", double["node"]), t.register("other", "python", double["python"])
	t.Expect([]string{t.boxOf(t.runtimeOf(one))}).NotTo(ContainElement(t.boxOf(t.runtimeOf(other))), "two sandboxes")
	t.Expect(t.call(one, m{"n": 1}) + t.call(other, m{"n": 2})).To(Equal("24"))
}

func d04(t *row) {
	t.together(
		func() { t.registerAs(t.registration("one", "python")) },
		func() { t.registerAs(t.registration("other", "python")) },
	)
	t.Expect(t.boxesOf(t.runtimeOf(t.prefix() + "::one"))).To(HaveLen(1))
	t.Expect(t.runtimeOf(t.prefix() + "::one").UID).To(Equal(t.runtimeOf(t.prefix() + "::other").UID))
}

func d05(t *row) {
	request := t.registration("same", "node")
	t.teardownLater(m{"namespace": t.prefix()})
	failures := make(chan error, 4)
	attempt := func() { _, err := t.try(registerID, request); failures <- err }
	t.together(attempt, attempt, attempt, attempt)
	refused := 0
	for range cap(failures) {
		if err := <-failures; err != nil {
			refused++
			t.isRefusal(err, "invalid_request", request, "already registered", request["function_id"].(string))
		}
	}
	t.Expect(refused).To(Equal(3), "one of four wins")
	t.Expect(t.call(request["function_id"].(string), m{"n": 3})).To(Equal("6"))
}

func d06(t *row) {
	request := t.registration("taken", "node")
	id := request["function_id"].(string)
	t.serve(t.worker(), id, "return 'theirs'")
	calls := t.backend(func() { t.refuses("invalid_request", registerID, request, "already registered", id) })
	t.Expect(calls).To(BeEmpty())
	t.Expect(t.call(id, m{})).To(Equal(`"theirs"`))
}

// probeFails expects a registration to be refused as long as the bus answers the
// probe like this, and to work afterwards.
func (t *row) probeFails(name string, probe *rule) {
	request := t.registration(name, "node")
	id := request["function_id"].(string)
	probe.function, probe.having = "engine::functions::info", id
	t.scriptEngine(probe)
	t.refuses("engine", registerID, request)
	t.Expect(t.listed(id)).To(BeEmpty())
	t.nothing(id)
}

func d07(t *row) {
	t.probeFails("forbidden", &rule{fault: busFault("FORBIDDEN", "not allowed to call engine::functions::info")})
	t.probeFails("failing", &rule{fault: busFault("invocation_failed", "the catalog is being rebuilt")})
}

func d08(t *row) {
	t.probeFails("unknown", &rule{fault: busFault("function_not_found", "Function engine::functions::info not found")})
}

func d09(t *row) {
	t.probeFails("again", &rule{times: 1, fault: busFault("FORBIDDEN", "not now")})
	t.registerAs(t.registration("again", "node"))
	t.Expect(t.call(t.prefix()+"::again", m{"n": 3})).To(Equal("6"))
}

func d10(t *row) {
	bothLanguages(func(lang string) {
		id := t.register("f", lang, double[lang])
		t.teardown(m{"namespace": t.prefix()})
		t.Expect(t.listed(id)).To(BeEmpty())
	})
}

// ownIDs are those that the worker answers, in the order of the catalog.
var ownIDs = []string{runID, teardownID, registerID, listID, guidanceID}

// lateIDs are those that the original publishes later in its boot.
var lateIDs = []string{workerName + "::ui-content", workerName + "::on-config-change"}

func (t *row) reserved(ids []string) {
	calls := t.backend(func() {
		for _, id := range ids {
			t.refuses("invalid_request", registerID, m{"function_id": id, "lang": "node", "source": double["node"]}, id)
		}
	})
	t.Expect(calls).To(BeEmpty())
}

func d11(t *row) {
	t.reserved(ownIDs)
	t.teardown(m{"runtime_id": t.keep("node")})
	t.register("f", "node", double["node"])
	t.teardown(m{"namespace": t.prefix()})
	t.leftNothing()
	t.reserved(ownIDs)
}

func d12(t *row) { t.reserved(append(lateIDs, eventType)) }

func d13(t *row) {
	for _, id := range []string{"price", "", "::price", "shop::", "Shop::price", "a..b::c", ".shop::price", "shop:price", "sh op::price"} {
		t.refuses("invalid_request", registerID, m{"function_id": id, "lang": "node", "source": double["node"]})
	}
}

func d14(t *row) {
	for _, change := range []m{
		{"source": ""},
		{"source": strings.Repeat("/", mebibyte+1)},
		{"function_id": t.prefix() + "::" + strings.Repeat("x", 256)},
		{"description": strings.Repeat("d", 4097)},
	} {
		request := t.registration("f", "node")
		for field, value := range change {
			request[field] = value
			t.refuses("invalid_request", registerID, request, field)
		}
	}
}

func d15(t *row) {
	const most = 64
	t.teardownLater(m{"namespace": t.prefix()})
	for from := 0; from < most; from += 8 {
		acts := make([]func(), 8)
		for i := range acts {
			acts[i] = func() { t.call(registerID, t.registration(fmt.Sprintf("f%02d", from+i), "python")) }
		}
		t.together(acts...)
	}
	t.refuses("invalid_request", registerID, t.registration("one-too-many", "python"), "already holds", "64")
	t.Expect(t.listed(t.prefix() + "::")).To(HaveLen(most))
	t.registerAs(t.registration("other-language", "node"))
}

func d16(t *row) {
	for length, fits := range map[int]bool{64: true, 65: false} {
		prefix := "d16" + strings.Repeat("x", length-3)
		request := m{"function_id": prefix + "::f", "lang": "node", "source": double["node"]}
		if fits {
			t.registerAs(request)
			t.Expect(t.call(prefix+"::f", m{"n": 2})).To(Equal("4"))
		} else {
			t.refuses("invalid_request", registerID, request, "64")
		}
	}
}

func d17(t *row) {
	for i, description := range []any{nil, ""} {
		request := t.registration(fmt.Sprintf("f%d", i), "node")
		request["description"] = description
		t.registerAs(request)
		t.Expect(t.info(request["function_id"].(string))["description"]).To(ContainSubstring(workerName))
	}
}

// d18 holds the planting until the teardown is under way.
func d18(t *row) {
	t.register("first", "python", double["python"])
	sandbox := t.boxOf(t.runtimeOf(t.prefix() + "::first"))
	gate := make(chan struct{})
	t.scriptDaemon(&rule{function: "sandbox::exec", having: sandbox, times: 1, hold: gate})
	refused := t.background(func() {
		t.refuses("engine", registerID, t.registration("second", "python"), "again")
	})
	t.Eventually(func() int { return t.heldCalls(sandbox) }).Should(Equal(1))
	removed := t.background(func() { t.teardown(m{"namespace": t.prefix()}) })
	t.Eventually(func() []string { return t.listed(t.prefix()) }).Should(BeEmpty())
	close(gate)
	refused()
	removed()
	t.nothing(t.prefix() + "::second")
}

// heldCalls are the scripted calls into a sandbox so far.
func (t *row) heldCalls(sandbox string) int { return t.daemonTap.uses(sandbox) }

func d19(t *row) {
	t.register("first", "python", double["python"])
	sandbox := t.boxOf(t.runtimeOf(t.prefix() + "::first"))
	t.scriptDaemon(&rule{function: "sandbox::exec", having: sandbox, fault: daemonFault("S002", "sandbox not found: "+sandbox)})
	t.after(func(t *row) { _, _ = t.try("sandbox::stop", m{"sandbox_id": sandbox}) })
	t.registerAs(t.registration("second", "python"))
	t.Expect(t.call(t.prefix()+"::second", m{"n": 4})).To(Equal("8"), "in another sandbox")
}

func d20(t *row) {
	t.leavesFleet(func() {
		t.refuses("invalid_request", registerID, m{"function_id": t.prefix() + "::f", "lang": "python", "source": "a = 1\n"}, "handler")
	})
	t.nothing(t.prefix() + "::f")
}

// refusesSource expects a source to be refused, the id to stay free and no
// runtime to be left.
func (t *row) refusesSource(lang, source string, words ...string) {
	id := t.prefix() + "::refused"
	t.refuses("invalid_request", registerID, m{"function_id": id, "lang": lang, "source": source}, words...)
	t.nothing(id)
}

func d21(t *row) {
	t.refusesSource("python", "answer = 1\n", "handler")
	t.refusesSource("node", "export const answer = 1\n", "handler")
	t.registerAs(t.registration("refused", "node"))
}

func d22(t *row) {
	t.refusesSource("python", "handler = 'no function'\n", "handler")
	t.refusesSource("node", "export const handler = 1\n", "handler")
}

func d23(t *row) {
	t.Expect(t.call(t.register("python", "python", "handler = lambda payload: payload['n'] + 1"), m{"n": 1})).To(Equal("2"))
	t.Expect(t.call(t.register("node", "node", "export const handler = ({ n }) => n + 2"), m{"n": 1})).To(Equal("3"))
}

func d24(t *row) {
	bothLanguages(func(lang string) {
		id := t.register("again-"+lang, lang, double[lang])
		newer := map[string]string{"node": "export const handler = () => 'newer'", "python": "def handler(payload): return 'newer'"}[lang]
		request := m{"function_id": id, "lang": lang, "source": newer}
		t.refuses("invalid_request", registerID, request, "already registered", id)
		t.Expect(t.call(id, m{"n": 1})).To(Equal("2"))
		request["replace"] = true
		t.registerAs(request)
		t.Expect(t.call(id, m{"n": 1})).To(Equal(`"newer"`))
	})
}

func d25(t *row) {
	id := t.register("f", "node", double["node"])
	for _, replace := range []bool{false, true} {
		t.refuses("invalid_request", registerID, m{"function_id": id, "lang": "python", "source": double["python"], "replace": replace}, id)
	}
	t.Expect(t.call(id, m{"n": 1})).To(Equal("2"))
}

func d26(t *row) {
	t.teardownLater(m{"namespace": t.prefix()})
	t.prints("node", fmt.Sprintf(`
const made = await iii.trigger({ function_id: %q, payload: { function_id: %q, lang: 'node', source: %q } })
console.log(made.registered)`, registerID, t.prefix()+"::born-node", double["node"]), "true\n")
	t.prints("python", fmt.Sprintf(`
made = iii.trigger({"function_id": %q, "payload": {"function_id": %q, "lang": "python", "source": %q}})
print(made["registered"])`, registerID, t.prefix()+"::born-python", double["python"]), "True\n")
	for _, name := range []string{"born-node", "born-python"} {
		t.Expect(t.call(t.prefix()+"::"+name, m{"n": 5})).To(Equal("10"))
	}
}

func d27(t *row) {
	format := m{"type": "object", "properties": m{"n": m{"type": "number"}}, "required": []any{"n"}}
	request := t.registration("shown", "node")
	request["request_format"], request["response_format"] = format, m{"type": "number"}
	t.registerAs(request)
	id := request["function_id"].(string)
	t.Expect(t.info(id)).To(And(HaveKeyWithValue("request_schema", format), HaveKeyWithValue("response_schema", m{"type": "number"})))
	t.Expect(t.call(id, m{"n": "x"})).To(Equal("null"), "shown, not enforced")
	for _, bad := range []any{m{}, m{"description": "constrains nothing"}, m{"type": "object", "title": strings.Repeat("x", 17<<10)}, "text"} {
		request = t.registration("refused", "node")
		request["request_format"] = bad
		t.refuses("invalid_request", registerID, request, "request_format")
	}
}

func d28(t *row) {
	id := t.register("f", "python", double["python"])
	t.Expect(t.listed(t.prefix())).To(Equal([]string{id}))
	t.Expect(t.info(id)).To(HaveKeyWithValue("worker_name", workerName))
	t.Expect(t.call(id, m{"n": 21})).To(Equal("42"))
}

// isRefused tells a refusal of the contract from trouble of the suite.
func isRefused(err error) bool {
	var refused *refusal
	return errors.As(err, &refused)
}
