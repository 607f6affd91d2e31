package e2e

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

const (
	listFunction = "sandbox-code-runner::list_runtimes"
	eventType    = "sandbox-code-runner::event"
)

// listRuntimes is what one connection is shown.
func listRuntimes(ctx context.Context, client *bus.Client) (rows []m) {
	GinkgoHelper()
	answer, err := bus.Invoke[struct {
		Runtimes []m `json:"runtimes"`
	}](ctx, client, listFunction, m{})
	Expect(err).NotTo(HaveOccurred())
	return answer.Runtimes
}

// heard collects the events of some kinds, in the order in which they came.
type heard struct {
	mu     sync.Mutex
	events []m
}

func (h *heard) kinds() (kinds []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if kind := e["kind"].(string); kind != "fleet" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// of is the only event of a kind.
func (h *heard) of(kind string) m {
	GinkgoHelper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []m
	for _, e := range h.events {
		if e["kind"] == kind {
			found = append(found, e)
		}
	}
	Expect(found).To(HaveLen(1), kind)
	return found[0]
}

// listen binds a function to the operator's events until the end of the spec.
func listen(ctx context.Context) *heard {
	GinkgoHelper()
	all, id := &heard{}, "e2e-listener::hear"
	worker := connectBus(ctx, running.BusURL, "e2e-listener")
	Expect(worker.RegisterFunction(bus.Function{ID: id, Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
		var e m
		err := json.Unmarshal(inv.Data, &e)
		all.mu.Lock()
		defer all.mu.Unlock()
		all.events = append(all.events, e)
		return nil, err
	}})).To(Succeed())
	Expect(worker.RegisterTrigger(bus.Trigger{ID: "e2e-hear", Type: eventType, FunctionID: id})).To(Succeed())
	Eventually(ctx, func(ctx context.Context) ([]bus.RegisteredTrigger, error) {
		return worker.RegisteredTriggers(ctx, id)
	}).Should(HaveLen(1))
	return all
}

var _ = Describe("What callers keep", func() {
	It("is listed for all, with its id for its maker only", func(ctx SpecContext) {
		id := keepRuntime(ctx, "python", "pass")
		registerOnBus(ctx, "e2e-listed::a", "node", nodeEcho)
		Eventually(ctx, func(ctx context.Context) []m { return listRuntimes(ctx, caller) }).Should(And(HaveLen(2), HaveEach(HaveKeyWithValue("vm_gone", false))))
		mine := listRuntimes(ctx, caller)
		Expect(mine[0]).To(And(HaveKeyWithValue("namespace", "e2e-listed::"), HaveKeyWithValue("registered_functions", ConsistOf("e2e-listed::a"))))
		Expect(equalSecrets([]string{mine[1]["runtime_id"].(string)}, []string{id})).To(BeTrue())

		theirs := listRuntimes(ctx, connectBus(ctx, running.BusURL, "e2e-curious"))
		delete(mine[1], "runtime_id")
		Expect(theirs).To(Equal(mine), "the same without the id")
	}, specPatience)

	It("is told to those who listen, from beginning to end", func(ctx SpecContext) {
		all := listen(ctx)
		id := keepRuntime(ctx, "node", "1")
		Eventually(ctx, all.kinds).Should(ConsistOf("runtime_created", "run_settled"))
		Expect(all.of("run_settled")).To(And(HaveKeyWithValue("outcome", "success"), HaveKeyWithValue("reference", all.of("runtime_created")["reference"])))
		call(ctx, teardownFunction, m{"runtime_id": id})
		Eventually(ctx, all.kinds).Should(ConsistOf("runtime_created", "run_settled", "teardown"))
		Expect(all.of("teardown")).To(HaveKeyWithValue("outcome", "torn_down"))
	}, specPatience)

	It("goes when its caller leaves before the answer", func(ctx SpecContext) {
		leaving, leave := connectUntil(ctx, running.BusURL, "e2e-leaving")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = leaving.Call(ctx, bus.Call{FunctionID: runFunction, Data: json.RawMessage(
				`{"lang":"python","code":"import time; time.sleep(25)","keep":true,"timeout_ms":30000}`)})
		}()
		Eventually(ctx, countSandboxes).Should(Equal(1))
		leave()
		<-done
		Eventually(ctx, countSandboxes).WithTimeout(15*time.Second).Should(BeZero(), "long before the program would end")
	}, specPatience)
})
