package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/guest"
)

// Rows A: run in a fresh sandbox.

// mebibyte is the limit of code and sources, in bytes.
const mebibyte = 1 << 20

// endless are programs that only a deadline ends.
var endless = map[string]string{"node": "for (;;);", "python": "while True: pass"}

// bothLanguages does something for each language.
func bothLanguages(act func(lang string)) {
	for _, lang := range []string{"node", "python"} {
		act(lang)
	}
}

func a01(t *row) {
	kept := t.keptRuntimes()
	t.leavesFleet(func() {
		got := t.node("console.log([3, 1, 2].sort().join())")
		t.Expect(got.Stdout).To(Equal("1,2,3\n"))
		t.Expect(got.keys).To(ContainElements("stdout", "stderr", "exit_code", "success", "duration_ms"))
		t.Expect(got.keys).NotTo(ContainElement("runtime_id"))
	})
	t.Expect(t.keptRuntimes()).To(Equal(kept))
}

func a02(t *row) {
	calls := t.backend(func() { t.node("1") })
	order := names(calls)
	t.Expect(order[0]).To(Equal("sandbox::create"))
	t.Expect(order[len(order)-1]).To(Equal("sandbox::stop"))
	t.Expect(only(calls, "sandbox::create")).To(HaveLen(1))
	t.Expect(only(calls, "sandbox::fs::write")).To(HaveLen(1), "one agent instead of five files")
	t.Expect(t.executions(calls, "run")).To(HaveLen(1))
	t.Expect(only(calls, "sandbox::stop")).To(HaveLen(1))
}

func a03(t *row) {
	for _, e := range t.executions(t.backend(func() { t.node("1"); t.python("1") }), "") {
		t.Expect(e.Argv[0]).To(HavePrefix(guest.Directory + "/"))
		t.Expect([]string{"init", "run"}).To(ContainElement(e.verb()))
	}
}

func a04(t *row) {
	bothLanguages(func(lang string) {
		calls := t.backend(func() { t.run(m{"lang": lang, "code": "1"}) })
		t.Expect(only(calls, "sandbox::create")[0]).To(HaveKeyWithValue("image", lang))
	})
}

func a05(t *row) {
	calls := t.backend(func() {
		got := t.node("console.log(/^wss?:/.test(process.env.III_URL), process.env.OTEL_ENABLED)")
		t.Expect(got.Stdout).To(Equal("true false\n"))
	})
	created := only(calls, "sandbox::create")[0]
	t.Expect(created).To(HaveKeyWithValue("network", true))
	t.Expect(environment(created)).To(HaveKeyWithValue("OTEL_ENABLED", "false"))
	t.Expect(environment(created)).To(HaveKey("III_URL"))
}

// environment is that of a creation, which the wire takes as a list or a map.
func environment(request m) map[string]string {
	values := map[string]string{}
	switch env := request["env"].(type) {
	case m:
		for name, value := range env {
			values[name] = value.(string)
		}
	case []any:
		for _, each := range env {
			name, value, _ := strings.Cut(each.(string), "=")
			values[name] = value
		}
	}
	return values
}

// guestURL is what the guest of a new sandbox is told of the bus, by the operator
// and as its programs see it.
func (t *row) guestURL() (told, seen string) {
	calls := t.backend(func() { seen = strings.TrimSpace(t.node("console.log(process.env.III_URL)").Stdout) })
	return environment(only(calls, "sandbox::create")[0])["III_URL"], seen
}

func a06(t *row) {
	_, port, _ := strings.Cut(strings.TrimPrefix(t.stack.GuestBusURL, "ws://"), ":")
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		t.restart("--guest-bus-url=ws://" + host + ":" + port)
		told, seen := t.guestURL()
		// The URLs have a credential and stay out of the output.
		t.Expect(strings.Contains(seen, ":"+port)).To(BeTrue(), "the port stays, for %s", host)
		t.Expect(strings.Contains(seen, "127.0.0.1") || strings.Contains(seen, "::1")).To(BeFalse(), "a guest of %s sees a loopback literal", host)
		t.Expect(strings.HasPrefix(told, "ws://localhost:"+port)).To(BeTrue(), "the daemon is told a loopback literal, for %s", host)
	}
}

func a07(t *row) {
	for _, url := range []string{"wss://bus.example.test/guests", "ws://localhost:4321"} {
		t.restart("--guest-bus-url=" + url)
		told, _ := t.guestURL()
		t.Expect(strings.HasPrefix(told, url)).To(BeTrue(), "the daemon is told another URL than %s", url)
	}
}

func a08(t *row) {
	verbs := []string{}
	for _, e := range t.executions(t.backend(func() { t.python("1") }), "") {
		verbs = append(verbs, e.verb())
	}
	t.Expect(verbs).To(Equal([]string{"init", "run"}))
}

func a09(t *row) {
	calls := t.backend(func() { t.prints("python", "print(1)", "1\n") })
	for _, e := range t.executions(calls, "") {
		t.Expect(strings.Join(e.Argv, " ")).NotTo(ContainSubstring("pip"))
	}
}

// a10 has no network at all, so that nothing could be installed.
func a10(t *row) {
	run := t.runObject("a10", "Python", "print('ran')\ntry:\n    iii.trigger({'function_id': 'a::b', 'payload': 1})\nexcept RuntimeError as e:\n    print('told')\n")
	t.Expect(run.Status.Stdout).To(Equal("ran\ntold\n"))
}

func a11(t *row) {
	t.prints("python", agentDigest["python"], t.agent()+"\n")
}

func a12(t *row) {
	t.prints("node", agentDigest["node"], t.agent()+"\n")
	t.prints("node", "const sdk = await import('iii-sdk'); console.log(typeof sdk.registerWorker)", "function\n")
}

// agentDigest prints the digest of the agent that lies in the guest.
var agentDigest = map[string]string{
	"node":   fmt.Sprintf(agentDigestNode, guest.Directory),
	"python": fmt.Sprintf(agentDigestPython, guest.Directory),
}

const (
	agentDigestNode = `
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync, statSync } from 'node:fs'
const found = []
for (const folder of readdirSync('%[1]s')) {
  if (!statSync('%[1]s/' + folder).isDirectory()) continue
  for (const name of readdirSync('%[1]s/' + folder)) if (name === 'agent') found.push('%[1]s/' + folder + '/' + name)
}
for (const path of found) console.log(createHash('sha256').update(readFileSync(path)).digest('hex'))`
	agentDigestPython = `
import glob, hashlib
for path in glob.glob('%[1]s/*/agent'):
    print(hashlib.sha256(open(path, 'rb').read()).hexdigest())`
)

// agent is the digest of the program that this build plants.
func (t *row) agent() string { return must(guest.Program()).Digest }

func a13(t *row) {
	t.leavesFleet(func() {
		t.together(func() { t.node("1") }, func() { t.python("1") }, func() { t.node("process.exit(4)") })
	})
}

func a14(t *row) {
	calls := t.backend(func() { t.refuses("invalid_request", runID, m{"code": "1"}, "lang") })
	t.Expect(calls).To(BeEmpty())
}

func a15(t *row) {
	t.refuses("invalid_request", runID, m{"lang": "node", "code": ""}, "code")
}

func a16(t *row) {
	t.refuses("invalid_request", runID, m{"lang": "node", "code": strings.Repeat("/", mebibyte+1)}, "1048577", "1048576")
}

func a17(t *row) {
	code := "console.log('whole') //"
	t.prints("node", code+strings.Repeat("x", mebibyte-len(code)), "whole\n")
}

func a18(t *row) {
	code := "console.log('bytes') //"
	t.refuses("invalid_request", runID, m{"lang": "node", "code": code + strings.Repeat("é", mebibyte/2)}, "1048576")
	t.prints("node", code+strings.Repeat("é", (mebibyte-len(code))/2), "bytes\n")
}

// programLimit is what a run's program is given, in milliseconds.
func (t *row) programLimit(request m) int {
	calls := t.backend(func() { _, _ = t.try(runID, request) })
	e := t.executions(calls, "run")[0]
	limit := int(e.Request["timeoutMs"].(float64))
	t.Expect(e.TimeoutMS).To(Equal(limit+2000), "the daemon's limit is the agent's and two seconds")
	return limit
}

func a19(t *row) {
	for _, asked := range []any{30_001, 1_000_000_000, uint64(1) << 63} {
		t.Expect(t.programLimit(m{"lang": "python", "code": "1", "timeout_ms": asked})).To(Equal(30_000))
	}
}

func a20(t *row) {
	for _, request := range []m{{}, {"timeout_ms": 0}, {"timeout_ms": nil}} {
		request["lang"], request["code"] = "python", "1"
		t.Expect(t.programLimit(request)).To(Equal(5_000))
	}
}

func a21(t *row) {
	t.restart("--default-timeout=3s", "--max-timeout=1s")
	t.Expect(t.programLimit(m{"lang": "python", "code": "1"})).To(Equal(1_000))
	t.Expect(t.programLimit(m{"lang": "python", "code": "1", "timeout_ms": 2_000})).To(Equal(1_000))
}

func a33(t *row) {
	caller := t.worker()
	t.leavesFleet(func() {
		before := len(t.boxIDs())
		go func() {
			_, _ = t.tryAs(caller, runID, m{"lang": "python", "code": "import time; time.sleep(28)", "timeout_ms": 29_000})
		}()
		t.Eventually(t.boxIDs).Should(HaveLen(before + 1))
		t.leave(caller)
		t.Eventually(t.boxIDs, 10*time.Second).Should(HaveLen(before))
	})
}

func a34(t *row) {
	got := t.run(m{"lang": "node", "code": "console.log('ran')", "network": false, "_caller_worker_id": "someone", "more": m{"a": 1}})
	t.Expect(got.Stdout).To(Equal("ran\n"))
}

func a35(t *row) {
	for _, lang := range []any{"ruby", "Node", "PYTHON", "", 1, []string{"node"}} {
		t.refuses("invalid_request", runID, m{"lang": lang, "code": "1"}, "lang")
	}
}

func a36(t *row) {
	for _, limit := range []any{-1, 1.5, "5000", true} {
		t.refuses("invalid_request", runID, m{"lang": "node", "code": "1", "timeout_ms": limit}, "timeout_ms")
	}
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
