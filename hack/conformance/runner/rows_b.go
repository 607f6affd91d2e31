package main

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/google/uuid"
)

// Rows B: run in kept runtimes.

// saying prints a word in either language.
func saying(lang, word string) string {
	if lang == "node" {
		return fmt.Sprintf("console.log('%s')", word)
	}
	return fmt.Sprintf("print('%s')", word)
}

func unknownID() string { return "rt-" + uuid.NewString() }

func b01(t *row) {
	id := t.keep("node")
	t.Expect(id).To(MatchRegexp(`^rt-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`))
	t.Expect(t.boxesOf(t.kept(id))).To(HaveLen(1))
}

func b02(t *row) {
	id := t.keep("node")
	var got answer
	calls := t.backend(func() { got = t.in(id, saying("node", "again")) })
	t.Expect(names(calls)).To(Equal([]string{"sandbox::exec"}), "one call instead of two")
	t.same(*got.RuntimeID, id, "the id is echoed")
}

func b03(t *row) { t.grows(1, func() { t.keep("python") }) }

func b04(t *row) {
	id := t.keepAfter("node", "import { writeFileSync } from 'node:fs'; writeFileSync('/tmp/seed', '7')")
	t.Expect(t.in(id, "import { readFileSync } from 'node:fs'; console.log(readFileSync('/tmp/seed', 'utf8'))").Stdout).To(Equal("7\n"))
	id = t.keepAfter("python", "open('/tmp/seed', 'w').write('8')")
	t.Expect(t.in(id, "print(open('/tmp/seed').read())").Stdout).To(Equal("8\n"))
}

func b05(t *row) {
	id := t.keepAfter("node", "globalThis.seen = 1")
	t.Expect(t.in(id, "console.log(typeof globalThis.seen)").Stdout).To(Equal("undefined\n"))
	id = t.keepAfter("python", "import builtins; builtins.seen = 1; open('/tmp/path', 'w').write(__file__)")
	t.Expect(t.in(id, "import os; print(os.path.exists(open('/tmp/path').read()))").Stdout).To(Equal("False\n"), "the file of the run is removed")
	t.Expect(t.in(id, "import builtins; print(hasattr(builtins, 'seen'))").Stdout).To(Equal("False\n"))
}

func b06(t *row) {
	t.keepsNothing(func() {
		t.refuses("timeout", runID, m{"lang": "python", "code": endless["python"], "keep": true, "timeout_ms": 300})
	})
}

func b07(t *row) {
	got := t.run(m{"lang": "python", "code": "raise SystemExit(9)", "keep": true})
	t.Expect(got.ExitCode).To(Equal(9))
	t.Expect(got.RuntimeID).NotTo(BeNil())
	t.Expect(t.in(*got.RuntimeID, "print(1)").Stdout).To(Equal("1\n"))
}

func b08(t *row) {
	id := t.keep("node")
	before := t.keptRuntimes()
	t.grows(0, func() {
		got := t.run(m{"runtime_id": id, "keep": true, "code": "1"})
		t.same(*got.RuntimeID, id, "the id is echoed")
	})
	t.Expect(t.keptRuntimes()).To(Equal(before))
}

func b09(t *row) {
	id := t.keep("node")
	t.refuses("invalid_request", runID, m{"runtime_id": id, "lang": "python", "code": "1"}, "lang", "cannot be mixed")
	t.Expect(t.in(id, "1").Success).To(BeTrue())
}

func b10(t *row) {
	id := t.keep("python")
	for _, lang := range []any{"python", nil} {
		t.Expect(t.run(m{"runtime_id": id, "lang": lang, "code": "print(1)"}).Stdout).To(Equal("1\n"))
	}
}

func b11(t *row) {
	id := unknownID()
	calls := t.backend(func() {
		t.Expect(t.refuses("runtime_not_found", runID, m{"runtime_id": id, "code": "1"})).To(Equal("unknown runtime_id " + id))
	})
	t.Expect(calls).To(BeEmpty())
}

func b12(t *row) {
	t.refuses("runtime_not_found", runID, m{"runtime_id": unknownID(), "lang": "python", "code": "console.log(1)"}, "unknown runtime_id")
}

func b13(t *row) {
	id := t.keepAfter("python", "open('/tmp/kept', 'w').write('yes')")
	sandbox := t.boxOf(t.kept(id))
	t.refuses("timeout", runID, m{"runtime_id": id, "code": endless["python"], "timeout_ms": 300})
	t.Expect(t.in(id, "print(open('/tmp/kept').read())").Stdout).To(Equal("yes\n"))
	t.same(t.boxOf(t.kept(id)), sandbox, "the sandbox stays")
}

// b14 scripts the loss, so that nobody notices before the caller does.
func b14(t *row) {
	id := t.keep("python")
	sandbox := t.boxOf(t.kept(id))
	t.scriptDaemon(&rule{function: "sandbox::exec", having: sandbox, fault: daemonFault("S002", "sandbox not found: "+sandbox)})
	text := t.refuses("expired", runID, m{"runtime_id": id, "code": "1"}, id)
	t.Expect(text).To(ContainSubstring("empty"), "it says that the next file system starts empty")
	t.refuses("runtime_not_found", runID, m{"runtime_id": id, "code": "1"}, id)
}

func b15(t *row) {
	id := t.keep("python")
	sandbox := t.boxOf(t.kept(id))
	t.scriptDaemon(&rule{function: "sandbox::exec", having: sandbox, fault: daemonFault("S003", "sandbox "+sandbox+" runs something else")})
	t.within(patienceWithBusy, func(t *row) {
		t.refuses("engine", runID, m{"runtime_id": id, "code": "1", "timeout_ms": 2_000}, "again")
	})
}

// patienceWithBusy is more than the program's limit and anything around it.
const patienceWithBusy = 20 * time.Second

func b16(t *row) {
	id := t.keep("node")
	t.Expect(t.in(id, "console.log(process.env.III_WORKER_NAME)").Stdout).To(HavePrefix("sandbox-code-runner:run"))
}

// alone prints whether another program runs at the same time in the same files.
const aloneProgram = `
import os, time
try:
    os.mkdir("/tmp/busy")
except FileExistsError:
    print("together")
else:
    time.sleep(0.4)
    os.rmdir("/tmp/busy")
    print("alone")
`

func b17(t *row) {
	id := t.keep("python")
	once := func() { t.Expect(t.in(id, aloneProgram).Stdout).To(Equal("alone\n")) }
	t.together(once, once)
}

// meeting makes a function that answers once so many programs have called it.
func (t *row) meeting(programs int) (id string) {
	id = t.prefix() + "::meet"
	t.serve(t.worker(), id, fmt.Sprintf(`
const waiting = (globalThis[%[1]q] ??= [])
return new Promise((resolve) => {
  waiting.push(resolve)
  if (waiting.length === %[2]d) for (const each of waiting) each(waiting.length)
})`, id, programs))
	return id
}

func b18(t *row) {
	met := t.meeting(2)
	one, other := t.keep("node"), t.keep("python")
	t.together(
		func() {
			t.Expect(t.in(one, "console.log(await iii.trigger({ function_id: '"+met+"', payload: 1 }))").Stdout).To(Equal("2\n"))
		},
		func() {
			t.Expect(t.in(other, "print(iii.trigger({'function_id': '"+met+"', 'payload': 1}))").Stdout).To(Equal("2\n"))
		},
	)
}

func b19(t *row) {
	id := t.keep("python")
	sandbox := t.boxOf(t.kept(id))
	ended := t.background(func() {
		t.Expect(t.in(id, "import time; time.sleep(12); print('long')").Stdout).To(Equal("long\n"))
	})
	t.running(sandbox)
	waited := takes(func() {
		_, err := t.try(runID, m{"runtime_id": id, "code": "print(1)", "timeout_ms": 500})
		t.Expect(err).To(MatchError(Or(ContainSubstring("::timeout: "), ContainSubstring("::capacity: "))))
	})
	t.Expect(waited).To(BeNumerically("<", 10*time.Second), "it does not wait for the long run")
	ended()
}

func b20(t *row) {
	ids := map[string]string{"node": t.keep("node"), "python": t.keep("python")}
	for lang, id := range ids {
		t.Expect(t.in(id, saying(lang, lang)).Stdout).To(Equal(lang + "\n"))
		t.Expect(strings.Contains(id, lang)).To(BeFalse())
	}
}

func b21(t *row) {
	bothLanguages(func(lang string) {
		id := t.keep(lang)
		t.teardown(m{"runtime_id": id})
		t.refuses("runtime_not_found", runID, m{"runtime_id": id, "code": "1"}, "unknown runtime_id", id)
	})
}
