package main

import (
	"time"

	. "github.com/onsi/gomega"
)

// Rows A22 to A32: what becomes of a run when the daemon fails. The daemon is
// real but for the one call that is scripted.

// aRun is any program.
func aRun() m { return m{"lang": "python", "code": "print('ran')"} }

// keepsNothing expects an act to leave no sandbox and no kept runtime.
func (t *row) keepsNothing(act func()) {
	before := t.keptRuntimes()
	t.leavesFleet(act)
	t.Eventually(t.keptRuntimes).Should(Equal(before))
}

func a22(t *row) {
	t.scriptDaemon(&rule{function: "sandbox::create", answer: m{"image": "python"}})
	t.keepsNothing(func() { t.refuses("engine", runID, aRun(), "names no sandbox") })
}

func a23(t *row) {
	t.scriptDaemon(&rule{function: "sandbox::create", fault: daemonFault("S400", "resource limit exceeded: 32 sandboxes")})
	calls := t.backend(func() { t.keepsNothing(func() { t.refuses("capacity", runID, aRun(), "32 sandboxes") }) })
	t.Expect(only(calls, "sandbox::exec")).To(BeEmpty())
}

func a24(t *row) {
	t.scriptDaemon(&rule{function: "sandbox::create", fault: daemonFault("S200", "boot timed out after 300000 ms")})
	t.keepsNothing(func() { t.refuses("timeout", runID, aRun()) })
}

func a25(t *row) {
	t.scriptDaemon(&rule{function: "sandbox::fs::write", fault: daemonFault("S002", "sandbox not found: 0e1d")})
	t.keepsNothing(func() {
		text := t.refuses("engine", runID, aRun(), "again")
		t.Expect(text).NotTo(ContainSubstring("0e1d"))
	})
}

func a26(t *row) {
	t.scriptDaemon(&rule{function: "sandbox::fs::write", fault: daemonFault("S213", "permission denied")})
	calls := t.backend(func() { t.keepsNothing(func() { t.refuses("engine", runID, aRun(), "S213", "permission denied") }) })
	t.Expect(only(calls, "sandbox::stop")).To(HaveLen(len(only(calls, "sandbox::create"))))
}

func a27(t *row) {
	t.keepsNothing(func() {
		refused := t.refusalOf(runID, m{"lang": "node", "code": "console.log('so far');" + endless["node"], "timeout_ms": 600})
		t.Expect(refused.Message).To(ContainSubstring("::timeout: "))
		t.Expect(refused.Stacktrace).To(ContainSubstring("so far"), "partial output")
	})
}

// execOf fits the executions of a subcommand of the agent.
func execOf(verb string) string { return `"` + verb + `"` }

func a28(t *row) {
	t.scriptDaemon(&rule{function: "sandbox::exec", having: execOf("run"), fault: daemonFault("S004", "sandbox already stopped: 77aa")})
	t.keepsNothing(func() {
		for _, request := range []m{aRun(), {"lang": "python", "code": "1", "keep": true}} {
			text := t.refuses("engine", runID, request, "again")
			t.Expect(text).NotTo(ContainSubstring("77aa"))
		}
	})
}

func a29(t *row) {
	t.scriptDaemon(&rule{function: "sandbox::exec", having: execOf("run"), alter: func(reply m) { reply["exit_code"] = nil }})
	got := t.run(aRun())
	t.Expect(got.Stdout).To(Equal("ran\n"))
	t.Expect(got.ExitCode).To(BeZero(), "the agent knows better")
	t.Expect(t.python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").ExitCode).To(Equal(137))
}

func a30(t *row) {
	t.scriptDaemon(&rule{function: "sandbox::exec", having: execOf("run"), alter: func(reply m) {
		delete(reply, "success")
		delete(reply, "duration_ms")
	}})
	got := t.run(aRun())
	t.Expect(got.Success).To(BeTrue(), "the agent knows better")
	t.Expect(got.keys).To(ContainElements("success", "duration_ms"))
}

func a32(t *row) {
	before := t.boxIDs()
	t.scriptDaemon(&rule{function: "sandbox::stop", times: 1, fault: daemonFault("S300", "the hypervisor does not answer")})
	t.Expect(t.run(aRun()).Stdout).To(Equal("ran\n"))
	t.Eventually(t.boxIDs, 45*time.Second).Should(Equal(before), "the sandbox goes at another attempt")
}
