package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rows H: expiry, restart, listing.

// h01 loses the sandbox behind functions: in our product they outlive it, and are
// off the bus while nothing can serve them.
func h01(t *row) {
	ids := []string{t.register("one", "python", double["python"]), t.register("two", "python", double["python"])}
	t.lose(t.boxOf(t.runtimeOf(ids[0])))
	for _, id := range ids {
		t.Eventually(func() string { answer, _ := t.try(id, m{"n": 2}); return string(answer) }).Should(Equal("4"))
	}
	got, _ := t.tear(m{"namespace": t.prefix()})
	t.Expect(got.Unregistered).To(Equal(ids))
	t.register("one", "python", double["python"])
}

// leaseMargin is what the daemon waits beyond the operator's own idle time.
const leaseMargin = 600

func h02(t *row) {
	created := only(t.backend(func() { t.keep("python") }), "sandbox::create")[0]
	t.Expect(created).To(HaveKeyWithValue("idle_timeout_secs", float64(900+leaseMargin)))
	for _, flag := range []string{"0s", "1s", "29s"} {
		code, output := t.manager("--idle-timeout=" + flag)
		t.Expect(code).NotTo(BeZero())
		t.Expect(output).To(ContainSubstring("between 30s"))
	}
	t.restart("--idle-timeout=60s")
	created = only(t.backend(func() { t.keep("python") }), "sandbox::create")[0]
	t.Expect(created).To(HaveKeyWithValue("idle_timeout_secs", float64(60+leaseMargin)))
}

// manager runs the operator's program with flags that end it at once.
func (t *row) manager(flags ...string) (exit int, output string) {
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(t.root, "bin", "manager"), flags...)
	text, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.ok(err)
	}
	t.Expect(ctx.Err()).NotTo(HaveOccurred(), "it went on")
	return command.ProcessState.ExitCode(), string(text)
}

func h03(t *row) { t.Expect(t.call(listID, m{})).To(Equal(`{"runtimes":[]}`)) }

func h04(t *row) {
	before := time.Now().Add(-time.Second).UnixMilli()
	ids := []string{t.register("b", "python", double["python"]), t.register("a", "python", double["python"])}
	got := t.listingOf(ids[0])
	t.Expect(got).NotTo(BeNil())
	t.Expect(got.Lang).To(Equal("python"))
	t.Expect(got.Functions).To(Equal(ids), "in the order of registration")
	t.Expect(got.CreatedAtMS).To(BeNumerically(">=", before-1000))
	t.Expect(got.Reference).NotTo(BeEmpty())
	t.Expect(got.RuntimeID + got.SandboxID).To(BeEmpty())
}

func h05(t *row) {
	id := t.keep("node")
	got := t.listingOf(id)
	t.Expect(got).NotTo(BeNil())
	t.Expect(got.Functions).To(Equal([]string{}))
	t.Expect(got.SandboxID).To(BeEmpty())
	t.teardown(m{"runtime_id": id})
	t.Expect(t.listingOf(id)).To(BeNil())
}

func h06(t *row) {
	before := t.list()
	running := t.background(func() { t.prints("python", "import time; time.sleep(1); print(1)", "1\n") })
	t.Consistently(func() int { return len(t.list()) }, 800*time.Millisecond).Should(Equal(len(before)))
	running()
	t.Expect(t.list()).To(HaveLen(len(before)))
}

func h07(t *row) {
	ids := []string{t.keep("node"), t.keep("python"), t.keep("node")}
	var seen []string
	for _, each := range t.list() {
		if each.RuntimeID != "" {
			seen = append(seen, each.RuntimeID)
		}
	}
	for i, id := range ids {
		t.same(seen[len(ids)-1-i], id, "newest first")
	}
}

func h08(t *row) {
	id := t.keep("python")
	gone := func() *bool {
		if got := t.listingOf(id); got != nil {
			return got.VMGone
		}
		return ptr.To(true)
	}
	t.Eventually(gone).Should(HaveValue(BeFalse()))
	unread := &rule{function: "sandbox::list", fault: daemonFault("S300", "no list today")}
	t.scripted = true
	remove := t.daemonTap.script(unread)
	t.after(func(*row) { remove() })
	t.Eventually(gone).Should(BeNil(), "no statement")
	remove()
	t.Eventually(gone).Should(HaveValue(BeFalse()))
	t.scriptDaemon(&rule{function: "sandbox::list", alter: func(reply m) {
		for _, each := range reply["sandboxes"].([]any) {
			each.(m)["stopped"] = true
		}
	}})
	t.Eventually(gone).Should(HaveValue(BeTrue()))
}

func h09(t *row) {
	_, err := readFleet(json.RawMessage(`{"sandboxes":[{"sandbox_id":"a"}]}`))
	t.Expect(err).To(MatchError(errNoStopped))
	_, err = readFleet(json.RawMessage(`{"sandboxes":[{"sandbox_id":"a","stopped":"no"}]}`))
	t.Expect(err).To(MatchError(errNoStopped))
	t.fleet()
}

func h10(t *row) { t.call(listID, m{"page": 2, "network": true, "_caller_worker_id": "x"}) }

func h11(t *row) {
	t.restart()
	kept := t.keepAfter("python", "open('/tmp/kept', 'w').write('still here')")
	function := t.register("f", "node", double["node"])
	before := t.boxIDs()
	t.restart()
	t.Expect(t.in(kept, "print(open('/tmp/kept').read())").Stdout).To(Equal("still here\n"))
	t.Eventually(func() string { answer, _ := t.try(function, m{"n": 2}); return string(answer) }).Should(Equal("4"))
	t.Expect(t.boxIDs()).To(Equal(before), "the same sandboxes")
	got, _ := t.tear(m{"namespace": t.prefix()})
	t.Expect(got.Unregistered).To(Equal([]string{function}))
}

// idles shortens the idle time of a kept runtime to the least there is.
func (t *row) idles(id string) {
	runtime := t.kept(id)
	before := runtime.DeepCopy()
	runtime.Spec.Idle.TimeoutSeconds = ptr.To[int32](30)
	t.ok(t.kube.Patch(t.ctx, runtime, client.MergeFrom(before)))
}

func h12(t *row) {
	subscribed := t.subscribe("return null")
	id := t.keep("python")
	reference := t.listingOf(id).Reference
	sandbox := t.boxOf(t.kept(id))
	t.idles(id)
	t.Eventually(t.keptRuntimes, 60*time.Second, time.Second).ShouldNot(ContainElement(keptName(id)))
	t.Eventually(t.boxIDs).ShouldNot(ContainElement(sandbox))
	t.Eventually(func() []string { return references(subscribed.events("teardown")) }).Should(ContainElement(reference))
	t.refuses("runtime_not_found", runID, m{"runtime_id": id, "code": "1"}, id)
}

func references(events []event) []string {
	found := []string{}
	for _, e := range events {
		found = append(found, e.Reference)
	}
	return found
}

func h13(t *row) {
	id := t.keep("node")
	mine := t.listingOf(id)
	t.Expect(mine).NotTo(BeNil())
	seen := []string{}
	for _, each := range t.listAs(t.worker()) {
		t.Expect(each.RuntimeID + each.SandboxID).To(BeEmpty())
		seen = append(seen, each.Reference)
	}
	t.Expect(seen).To(ContainElement(mine.Reference), "a stranger sees the runtime, without its id")
}
