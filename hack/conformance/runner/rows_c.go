package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
)

// Rows C: teardown.

// double is a handler in either language.
var double = map[string]string{
	"node":   "export const handler = ({ n }) => 2 * n\n",
	"python": "def handler(payload):\n    return 2 * payload['n']\n",
}

// torn is what teardown answers.
type torn struct {
	RuntimeID    *string  `json:"runtime_id"`
	Namespace    *string  `json:"namespace"`
	TornDown     bool     `json:"torn_down"`
	Unregistered []string `json:"unregistered"`
}

func (t *row) tear(selector m) (got torn, keys []string) {
	text := t.teardown(selector)
	t.ok(json.Unmarshal([]byte(text), &got))
	t.Expect(got.TornDown).To(BeTrue())
	return got, keysOf(json.RawMessage(text))
}

func c01(t *row) {
	t.refuses("invalid_request", teardownID, m{"runtime_id": unknownID(), "namespace": "shop"}, "not both", "runtime_id", "namespace")
}

func c02(t *row) {
	for _, payload := range []m{{}, {"runtime_id": nil, "namespace": nil}} {
		t.refuses("invalid_request", teardownID, payload, "runtime_id", "namespace")
	}
}

func c03(t *row) {
	t.accepts(teardownID, m{"runtime_id": "rt-1"}, true)
	t.accepts(teardownID, m{"namespace": "shop"}, true)
	t.accepts(teardownID, m{}, false)
	t.accepts(teardownID, m{"runtime_id": "rt-1", "namespace": "shop"}, false)
}

func c04(t *row) {
	id := t.keep("node")
	sandbox := t.boxOf(t.kept(id))
	calls := t.backend(func() {
		got, keys := t.tear(m{"runtime_id": id})
		t.same(*got.RuntimeID, id, "the id is echoed")
		t.Expect(got.Unregistered).To(Equal([]string{}))
		t.Expect(keys).To(Equal([]string{"runtime_id", "torn_down", "unregistered"}))
		t.Eventually(t.boxIDs).ShouldNot(ContainElement(sandbox))
	})
	stops := only(calls, "sandbox::stop")
	t.Expect(stops).To(HaveLen(1))
	t.Expect(stops[0]).To(HaveKeyWithValue("sandbox_id", sandbox))
}

func c05(t *row) {
	id := t.keep("python")
	t.teardown(m{"runtime_id": id})
	t.refuses("runtime_not_found", teardownID, m{"runtime_id": id}, "unknown runtime_id", id)
}

// c06 scripts the loss, so that nobody notices before the teardown.
func c06(t *row) {
	id := t.keep("python")
	sandbox := t.boxOf(t.kept(id))
	t.after(func(t *row) { _, _ = t.try("sandbox::stop", m{"sandbox_id": sandbox}) })
	t.scriptDaemon(&rule{function: "sandbox::stop", having: sandbox, fault: daemonFault("S002", "sandbox not found: "+sandbox)})
	t.teardown(m{"runtime_id": id})
	t.Eventually(t.keptRuntimes).ShouldNot(ContainElement(keptName(id)))
}

func c07(t *row) {
	id := t.keep("python")
	sandbox := t.boxOf(t.kept(id))
	t.scriptDaemon(&rule{function: "sandbox::stop", having: sandbox, times: 1, fault: daemonFault("S300", "the hypervisor does not answer")})
	t.teardown(m{"runtime_id": id})
	t.Eventually(t.boxIDs, 45*time.Second).ShouldNot(ContainElement(sandbox), "it goes at another attempt")
}

func c08(t *row) {
	id := t.keep("python")
	sandbox := t.boxOf(t.kept(id))
	ended := t.background(func() {
		t.Expect(t.in(id, "import time; time.sleep(2); print('drained')").Stdout).To(Equal("drained\n"))
	})
	t.running(sandbox)
	removed := t.background(func() { t.teardown(m{"runtime_id": id}) })
	t.Eventually(func() error {
		_, err := t.try(runID, m{"runtime_id": id, "code": "1"})
		return err
	}, time.Second).Should(MatchError(ContainSubstring("::runtime_not_found: ")), "the record goes at once")
	ended()
	removed()
	t.Eventually(t.boxIDs).ShouldNot(ContainElement(sandbox))
}

func c09(t *row) {
	for i, form := range []string{"", "::"} {
		id := t.register(fmt.Sprintf("f%d", i), "node", double["node"])
		got, _ := t.tear(m{"namespace": t.prefix() + form})
		t.Expect(*got.Namespace).To(Equal(t.prefix() + "::"))
		t.Expect(got.Unregistered).To(Equal([]string{id}))
	}
}

func c10(t *row) {
	ids := []string{t.register("n1", "node", double["node"]), t.register("p", "python", double["python"]), t.register("n2", "node", double["node"])}
	boxes := append(t.boxesOf(t.runtimeOf(ids[0])), t.boxesOf(t.runtimeOf(ids[1]))...)
	t.Expect(boxes).To(HaveLen(2))
	got, _ := t.tear(m{"namespace": t.prefix()})
	t.Expect(got.Unregistered).To(ConsistOf(ids))
	t.Expect(slices.Index(got.Unregistered, ids[0])).To(BeNumerically("<", slices.Index(got.Unregistered, ids[2])), "the order of registration")
	t.Expect(t.listed(t.prefix())).To(BeEmpty())
	t.Eventually(t.boxIDs).ShouldNot(ContainElements(boxes))
	t.Expect(t.call(t.register("n1", "python", double["python"]), m{"n": 4})).To(Equal("8"))
}

func c11(t *row) {
	t.refuses("runtime_not_found", teardownID, m{"namespace": "nobody-here"}, `"nobody-here::"`)
}

func c12(t *row) {
	for _, namespace := range []string{"", "Shop", "a..b", ".x", "a::b", "a b", "::"} {
		t.refuses("invalid_request", teardownID, m{"namespace": namespace})
	}
}

func c13(t *row) {
	id := t.register("f", "node", double["node"])
	t.teardown(m{"namespace": t.prefix()})
	t.gone(id)
	t.Expect(t.call(t.register("f", "node", "export const handler = () => 'new'"), nil)).To(Equal(`"new"`))
}

func c14(t *row) {
	ids := []string{t.register("n", "node", double["node"]), t.register("p", "python", double["python"])}
	sandbox := t.boxOf(t.runtimeOf(ids[1]))
	t.together(
		func() { t.lose(sandbox) },
		func() {
			got, _ := t.tear(m{"namespace": t.prefix()})
			t.Expect(got.Unregistered).To(ConsistOf(ids))
		},
	)
}

func c15(t *row) {
	t.register("f", "node", double["node"])
	_, keys := t.tear(m{"namespace": t.prefix()})
	t.Expect(keys).To(Equal([]string{"namespace", "torn_down", "unregistered"}))
}

// c16 lets the two race several times; whatever the order, nothing is published
// that nobody owns.
func c16(t *row) {
	id := t.prefix() + "::raced"
	t.teardownLater(m{"namespace": t.prefix()})
	for round := range 6 {
		var registered, removed error
		var both sync.WaitGroup
		both.Go(func() {
			_, registered = t.try(registerID, m{"function_id": id, "lang": "node", "source": double["node"]})
		})
		both.Go(func() {
			waitFor(time.Duration(round) * 30 * time.Millisecond)
			_, removed = t.try(teardownID, m{"namespace": t.prefix()})
		})
		both.Wait()
		if registered != nil {
			t.isRefusal(registered, "engine", nil)
		}
		if removed != nil {
			t.isRefusal(removed, "runtime_not_found", nil)
		}
		if len(t.listed(id)) > 0 {
			t.Expect(t.call(id, m{"n": 1})).To(Equal("2"))
			t.function(id)
			t.teardown(m{"namespace": t.prefix()})
		}
		t.Expect(t.listed(id)).To(BeEmpty())
	}
}

// waitFor lets time pass that is the point of a row.
func waitFor(d time.Duration) { <-time.After(d) }

func c17(t *row) {
	got, _ := t.tear(m{"runtime_id": t.keep("python")})
	t.Expect(got.Unregistered).To(Equal([]string{}))
}

func c18(t *row) {
	t.keepsNothing(func() {
		id := t.keep("node")
		for _, lang := range []string{"node", "python"} {
			t.Expect(t.call(t.register(lang, lang, double[lang]), m{"n": 2})).To(Equal("4"))
		}
		t.python("print(1)")
		t.refuses("timeout", runID, m{"runtime_id": id, "code": endless["node"], "timeout_ms": 200})
		t.teardown(m{"runtime_id": id})
		t.teardown(m{"namespace": t.prefix()})
	})
	t.Expect(strings.Join(t.listed(t.prefix()), "")).To(BeEmpty())
}
