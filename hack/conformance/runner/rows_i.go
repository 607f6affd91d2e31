package main

import (
	"errors"
	"strings"

	. "github.com/onsi/gomega"
)

// Rows I: errors and what they may not say.

// refusalOf is an error as its caller got it.
func (t *row) refusalOf(function string, payload any) *refusal {
	_, err := t.try(function, payload)
	var refused *refusal
	t.Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
	return refused
}

func i01(t *row) {
	t.refuses("invalid_request", runID, m{})
	t.refuses("runtime_not_found", runID, m{"runtime_id": unknownID(), "code": "1"})
	t.refuses("timeout", runID, m{"lang": "node", "code": endless["node"], "timeout_ms": 200})
	t.fails("f", "node", "export const handler = () => { throw new Error('x') }")
	t.dies("S400", "capacity")
	t.dies("S300", "engine")
	id := t.keep("python")
	sandbox := t.boxOf(t.kept(id))
	t.scriptDaemon(&rule{function: "sandbox::exec", having: sandbox, fault: daemonFault("S002", "sandbox not found: "+sandbox)})
	t.refuses("expired", runID, m{"runtime_id": id, "code": "1"})
}

// dies expects a run to end with a code when the daemon cannot make its sandbox.
func (t *row) dies(daemonCode, code string, words ...string) {
	t.scripted = true
	remove := t.daemonTap.script(&rule{function: "sandbox::create", fault: daemonFault(daemonCode, "the daemon says why")})
	defer remove()
	t.refuses(code, runID, aRun(), words...)
}

func i02(t *row) {
	refused := t.refusalOf(runID, m{"lang": "node"})
	t.Expect(refused.Message).To(MatchRegexp(`(^|: )handler error: sandbox-code-runner::invalid_request: \S`))
}

func i03(t *row) {
	t.Expect(t.refusalOf(runID, m{}).Code).To(Equal("invocation_failed"))
	id := t.register("f", "node", "export const handler = () => { throw new Error('x') }")
	t.Expect(t.refusalOf(id, nil).Code).To(Equal("invocation_failed"))
}

func i04(t *row) {
	for _, code := range []string{"S002", "S004"} {
		id := t.keep("python")
		sandbox := t.boxOf(t.kept(id))
		t.scriptDaemon(&rule{function: "sandbox::exec", having: sandbox, fault: daemonFault(code, "gone: "+sandbox)})
		t.refuses("expired", runID, m{"runtime_id": id, "code": "1"})
	}
}

func i05(t *row) {
	t.dies("S200", "timeout")
	t.dies("S400", "capacity", "the daemon says why")
}

func i06(t *row) {
	id := t.keep("python")
	sandbox := t.boxOf(t.kept(id))
	t.scriptDaemon(&rule{function: "sandbox::exec", having: sandbox, fault: daemonFault("S003", "sandbox "+sandbox+" is busy")})
	t.within(patienceWithBusy, func(t *row) {
		t.refuses("engine", runID, m{"runtime_id": id, "code": "1", "timeout_ms": 2_000}, "S003", "again")
	})
}

func i07(t *row) {
	for _, code := range []string{"S300", "S102", "S999"} {
		t.dies(code, "engine", code, "the daemon says why")
	}
}

func i08(t *row) {
	for _, text := range []string{"handler error: no object here", `handler error: {"message":"an object without a code"}`} {
		fault := busFault("invocation_failed", text)
		remove := t.daemonTap.script(&rule{function: "sandbox::create", fault: fault})
		t.scripted = true
		got := t.refusalOf(runID, aRun())
		remove()
		t.Expect(got.Message).To(ContainSubstring("::engine: "))
		t.Expect(got.Message).To(Or(ContainSubstring("no object here"), ContainSubstring("an object without a code")))
	}
}

func i09(t *row) {
	t.registerAs(t.registration("absent", "node"))
	t.probeFails("probe-absent", &rule{fault: busFault("function_not_found", "Function engine::functions::info not found")})
	t.probeFails("forbidden", &rule{fault: busFault("FORBIDDEN", "not allowed")})
}

// i10 reads the whole log, which is kept at the debug level.
func i10(t *row) {
	before := len(t.operatorLog())
	id := t.keepAfter("python", "print('c0de-in-the-log')")
	t.in(id, "print('c0de-in-the-log')")
	sandbox := t.boxOf(t.kept(id))
	function := t.register("f", "node", "export const handler = () => 'c0de-in-the-log'")
	t.call(function, m{"a": "payl0ad-in-the-log"})
	t.call(listID, m{})
	t.refuses("invalid_request", registerID, m{"function_id": function, "lang": "node", "source": "export const handler = () => 'c0de-in-the-log'"})
	t.teardown(m{"runtime_id": id})
	t.teardown(m{"namespace": t.prefix()})
	log := t.operatorLog()[before:]
	for _, secret := range []string{"c0de-in-the-log", "payl0ad-in-the-log", id, sandbox} {
		t.Expect(strings.Contains(log, secret)).To(BeFalse(), "the log has a secret")
	}
	t.Expect(anyRuntimeID.MatchString(log)).To(BeFalse())
	t.Expect(log).To(ContainSubstring(t.prefix()+"-f"), "objects are named after the id")
}

func i11(t *row) {
	t.dies("S400", "capacity")
	t.refuses("resource_exhausted", runID, m{"lang": "python", "code": "x = bytearray(8 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1", "timeout_ms": 20_000}, "memory")
	id := t.register("f", "node", "export const handler = () => 'x'.repeat(9 << 20)")
	t.refuses("resource_exhausted", id, nil)
}

func i12(t *row) {
	for _, fault := range []*rule{
		{function: "sandbox::create", fault: daemonFault("S300", "boot failure")},
		{function: "sandbox::exec", having: execOf("run"), fault: daemonFault("S300", "the guest does not answer")},
		{function: "sandbox::exec", having: execOf("run"), answer: m{"stdout": "no frame", "stderr": "", "exit_code": 0, "success": true, "timed_out": false, "duration_ms": 1}},
	} {
		t.scripted = true
		remove := t.daemonTap.script(fault)
		t.refuses("engine", runID, aRun())
		remove()
	}
}

// i13 holds a call beyond every deadline, as a daemon that hangs does.
func i13(t *row) {
	id := t.register("f", "python", double["python"])
	gate := make(chan struct{})
	t.after(func(*row) { close(gate) })
	t.scriptDaemon(&rule{function: "sandbox::exec", having: execOf("call"), hold: gate})
	t.refuses("timeout", id, m{"n": 1})
}
