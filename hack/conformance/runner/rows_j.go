package main

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// Rows J: events and the fleet.

func j01(t *row) {
	subscribed := t.subscribe("return null")
	t.keep("node")
	events := subscribed.expects("runtime_created", "run_settled")
	t.Expect(events[0].Reference).NotTo(BeEmpty())
	t.Expect(events[1].Reference).To(Equal(events[0].Reference))
	t.Expect(events[0].Lang).To(Equal("node"))
	for _, e := range events {
		t.Expect(e.RuntimeID+e.SandboxID).To(BeEmpty(), "references instead of ids")
	}
	t.Expect(events[1].Sequence).To(BeNumerically(">", events[0].Sequence))
	t.Expect(events[0].TimeMS).To(BeNumerically("~", time.Now().UnixMilli(), 60_000))
}

func j02(t *row) {
	subscribed := t.subscribe("return null")
	t.python("1")
	t.Expect(subscribed.expects("run_settled")[0].Reference).To(BeEmpty())
	t.refuses("timeout", runID, m{"lang": "node", "code": endless["node"], "timeout_ms": 200})
	subscribed.expects("run_settled", "run_failed")
}

func j03(t *row) {
	subscribed := t.subscribe("return null")
	id := t.register("f", "python", double["python"])
	events := subscribed.expects("runtime_created", "function_registered")
	t.Expect(events[1].FunctionID).To(Equal(id))
	t.Expect(events[1].Reference).To(And(Equal(events[0].Reference), Not(BeEmpty())))
}

func j04(t *row) {
	id := t.keep("python")
	subscribed := t.subscribe("return null")
	reference := t.listingOf(id).Reference
	t.lose(t.boxOf(t.kept(id)))
	t.Expect(subscribed.expects("teardown")[0].Reference).To(Equal(reference))
}

func j05(t *row) {
	bothLanguages(func(lang string) { t.register(lang, lang, double[lang]) })
	subscribed := t.subscribe("return null")
	t.teardown(m{"namespace": t.prefix()})
	torn := func() int { return len(subscribed.events("teardown")) }
	t.Eventually(torn).Should(Equal(2))
	t.Consistently(torn, time.Second).Should(Equal(2))
	t.Expect(subscribed.events("function_unregistered")).To(HaveLen(2))
}

func j06(t *row) {
	before := t.operatorTap.passed()
	t.keep("node")
	t.python("1")
	for _, c := range t.operatorTap.since(before) {
		t.Expect(c.Function).To(Or(HavePrefix("engine::"), HavePrefix("sandbox::"), HavePrefix(workerName+"::")))
	}
}

func j07(t *row) {
	subscribed := []subscription{t.subscribe("return null"), t.subscribe("return null"), t.subscribe("return null")}
	t.python("1")
	for _, each := range subscribed {
		each.expects("run_settled")
	}
}

func j08(t *row) {
	leaving, staying := t.subscribe("return null"), t.subscribe("return null")
	t.python("1")
	leaving.expects("run_settled")
	leaving.unsubscribe()
	t.python("1")
	staying.expects("run_settled", "run_settled")
	leaving.expects("run_settled")
}

func j09(t *row) {
	subscribed := t.subscribe("return null")
	t.python("1")
	event := subscribed.expects("run_settled")[0]
	allowed := []string{"kind", "sequence", "time_ms", "lang", "outcome", "_caller_worker_id"}
	for _, key := range event.keys {
		t.Expect(allowed).To(ContainElement(key))
	}
	t.Expect(string(joined(t.callers.received(subscribed.id)))).NotTo(ContainSubstring("null"))
}

func j10(t *row) {
	t.subscribe("return new Promise(() => {})")
	t.subscribe("throw new Error('no thanks')")
	gone := t.subscribe("return null")
	t.leave(gone.worker)
	healthy := t.subscribe("return null")
	for range 3 {
		t.Expect(t.python("print(1)").Stdout).To(Equal("1\n"))
	}
	healthy.expects("run_settled", "run_settled", "run_settled")
}

// fleetPoll is how often the daemon is read while somebody listens.
const fleetPoll = 2 * time.Second

// quiet expects no event of the fleet for longer than a reading takes to come.
func (s subscription) quiet() {
	came := len(s.events("fleet"))
	s.Consistently(func() int { return len(s.events("fleet")) }, fleetPoll+time.Second, 100*time.Millisecond).Should(Equal(came))
}

// settled waits until the latest event of the fleet has so many sandboxes.
func (s subscription) settled(sandboxes int) (latest event) {
	s.Eventually(func() int {
		events := s.events("fleet")
		if len(events) == 0 {
			return -1
		}
		latest = events[len(events)-1]
		return len(latest.Sandboxes)
	}).Should(Equal(sandboxes))
	// The first event may be of a reading from before.
	waitFor(fleetPoll + time.Second)
	events := s.events("fleet")
	latest = events[len(events)-1]
	s.Expect(latest.Sandboxes).To(HaveLen(sandboxes))
	return latest
}

// box makes a sandbox that is not the operator's.
func (t *row) box() (id string) {
	id, _, _ = strings.Cut(strings.SplitAfter(t.call("sandbox::create", m{"image": "python", "idle_timeout_secs": 600}), `"sandbox_id":"`)[1], `"`)
	t.after(func(t *row) { _, _ = t.try("sandbox::stop", m{"sandbox_id": id}) })
	return id
}

func j11(t *row) {
	t.box()
	now := len(t.fleet())
	subscribed := t.subscribe("return null")
	subscribed.settled(now)
	subscribed.quiet()
	t.box()
	latest := subscribed.settled(now + 1)
	t.Expect(latest.DaemonAbsent).To(HaveValue(BeFalse()))
	t.Expect(latest.Sandboxes[0].SandboxID).To(BeEmpty(), "references instead of ids")
}

func j12(t *row) {
	t.box()
	t.box()
	subscribed := t.subscribe("return null")
	subscribed.settled(len(t.fleet()))
	subscribed.quiet() // ages grow meanwhile
	t.scriptDaemon(&rule{function: "sandbox::list", alter: func(reply m) { slices.Reverse(reply["sandboxes"].([]any)) }})
	subscribed.quiet()
}

func j13(t *row) {
	id := t.box()
	now := len(t.fleet())
	subscribed := t.subscribe("return null")
	subscribed.settled(now)
	events := func() int { return len(subscribed.events("fleet")) }
	before := events()
	ended := t.background(func() {
		t.call("sandbox::exec", m{"sandbox_id": id, "argv": []string{"sleep", "5"}, "timeout_ms": 20_000})
	})
	t.Eventually(events).Should(Equal(before+1), "busy")
	ended()
	t.Eventually(events).Should(Equal(before+2), "idle again")
	t.scriptDaemon(&rule{function: "sandbox::list", alter: func(reply m) {
		for _, each := range reply["sandboxes"].([]any) {
			if box := each.(m); box["sandbox_id"] == id {
				box["stopped"] = true
			}
		}
	}})
	t.Eventually(events).Should(Equal(before+3), "stopped")
	subscribed.quiet()
}

func j14(t *row) {
	t.restart()
	subscribed := t.subscribe("return null")
	subscribed.settled(len(t.fleet()))
	t.ok(t.stack.StopPart(t.ctx, stack.Daemon))
	t.after(func(t *row) { _ = t.stack.StartPart(t.ctx, stack.Daemon) })
	absent := func() int {
		return len(slices.DeleteFunc(subscribed.events("fleet"), func(e event) bool { return e.DaemonAbsent == nil || !*e.DaemonAbsent }))
	}
	t.Eventually(absent).Should(Equal(1))
	subscribed.quiet()
	t.ok(t.stack.StartPart(t.ctx, stack.Daemon))
	t.Eventually(func() bool {
		events := subscribed.events("fleet")
		return *events[len(events)-1].DaemonAbsent
	}).Should(BeFalse())
	t.Expect(absent()).To(Equal(1))
}

func j15(t *row) {
	t.box()
	subscribed := t.subscribe("return null")
	subscribed.settled(len(t.fleet()))
	t.scripted = true
	remove := t.daemonTap.script(&rule{function: "sandbox::list", fault: daemonFault("S300", "not now")})
	t.after(func(*row) { remove() })
	subscribed.quiet()
	remove()
	subscribed.quiet()
}
