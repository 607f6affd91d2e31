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

// The operator's functions on the bus.
const (
	runFunction      = "sandbox-code-runner::run"
	registerFunction = "sandbox-code-runner::register_function"
	teardownFunction = "sandbox-code-runner::teardown"
)

type m = map[string]any

// callTimeout covers a boot on a busy machine.
const callTimeout = 60 * time.Second

// connectBus makes a worker that leaves with the spec, or with the suite.
func connectBus(ctx context.Context, address, name string) *bus.Client {
	GinkgoHelper()
	client, _ := connectUntil(ctx, address, name)
	return client
}

// connectUntil makes a worker that leaves with the spec, or before.
func connectUntil(ctx context.Context, address, name string) (client *bus.Client, leave func()) {
	GinkgoHelper()
	client, err := bus.New(bus.Options{URL: address, Name: name, DrainTimeout: time.Second})
	Expect(err).NotTo(HaveOccurred())
	runCtx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(runCtx) }()
	leave = sync.OnceFunc(func() {
		cancel()
		Expect(<-ended).To(Succeed())
	})
	DeferCleanup(leave)
	Expect(client.WaitConnected(ctx)).To(Succeed())
	return client, leave
}

// tryCall calls a function as any worker on the bus may.
func tryCall(ctx context.Context, function string, payload any) (json.RawMessage, error) {
	GinkgoHelper()
	data, err := json.Marshal(payload)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return caller.Call(ctx, bus.Call{FunctionID: function, Data: data})
}

// call expects an answer, and remembers the secrets in it.
func call(ctx context.Context, function string, payload any) string {
	GinkgoHelper()
	answer, err := tryCall(ctx, function, payload)
	Expect(err).NotTo(HaveOccurred())
	return string(answer)
}

// runAnswer is what the operator's run answers (contracts/code-runner.md §4.1).
type runAnswer struct {
	RuntimeID  *string         `json:"runtime_id"`
	Stdout     string          `json:"stdout"`
	Stderr     string          `json:"stderr"`
	ExitCode   int             `json:"exit_code"`
	Success    bool            `json:"success"`
	DurationMS uint64          `json:"duration_ms"`
	Result     json.RawMessage `json:"result"`
}

func runOnBus(ctx context.Context, payload m) runAnswer {
	GinkgoHelper()
	var answer runAnswer
	Expect(json.Unmarshal([]byte(call(ctx, runFunction, payload)), &answer)).To(Succeed())
	if answer.RuntimeID != nil {
		observed.addSecret(*answer.RuntimeID)
	}
	return answer
}

// keepRuntime runs code in a new runtime that stays until the end of the spec.
func keepRuntime(ctx context.Context, lang, code string) (id string) {
	GinkgoHelper()
	answer := runOnBus(ctx, m{"lang": lang, "code": code, "keep": true})
	Expect(answer.Success).To(BeTrue(), answer.Stderr)
	Expect(answer.RuntimeID).NotTo(BeNil())
	DeferCleanup(func(ctx SpecContext) {
		_, err := tryCall(ctx, teardownFunction, m{"runtime_id": *answer.RuntimeID})
		Expect(err).To(Or(Succeed(), MatchError(ContainSubstring("::runtime_not_found:"))))
	}, specPatience)
	return *answer.RuntimeID
}

// registerOnBus publishes a function over the bus until the end of the spec.
func registerOnBus(ctx context.Context, id, lang, source string) {
	GinkgoHelper()
	tearDownLater(id)
	answer := call(ctx, registerFunction, m{"function_id": id, "lang": lang, "source": source})
	Expect(answer).To(MatchJSON(`{"function_id":"` + id + `","registered":true}`))
}

// tearDownLater takes the functions of a prefix off the bus at the end of the
// spec, if there are any by then.
func tearDownLater(functionID string) {
	prefix := prefixOf(functionID)
	DeferCleanup(func(ctx SpecContext) {
		_, err := tryCall(ctx, teardownFunction, m{"namespace": prefix})
		Expect(err).To(Or(Succeed(), MatchError(ContainSubstring("::runtime_not_found:"))))
	}, specPatience)
}

// functionsOnBus lists all ids that the engine knows.
func functionsOnBus(ctx context.Context) []string {
	type response struct {
		Functions []struct {
			ID string `json:"function_id"`
		} `json:"functions"`
	}
	answer, err := bus.Invoke[response](ctx, caller, "engine::functions::list", m{"include_internal": true})
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ids := []string{}
	for _, f := range answer.Functions {
		ids = append(ids, f.ID)
	}
	return sorted(ids)
}

// sandboxRow is one sandbox in the daemon's list (contracts/iii-sandbox.md §3.5).
type sandboxRow struct {
	ID   string `json:"sandbox_id"`
	Name string `json:"name"`
}

func listSandboxes(ctx context.Context, client *bus.Client) ([]sandboxRow, error) {
	type response struct {
		Sandboxes []sandboxRow `json:"sandboxes"`
	}
	answer, err := bus.Invoke[response](ctx, client, "sandbox::list", m{})
	return answer.Sandboxes, err
}

// countSandboxes keeps the ids, which are secrets, out of failure messages.
func countSandboxes(ctx context.Context) (int, error) {
	rows, err := listSandboxes(ctx, caller)
	return len(rows), err
}

// sandboxIDs are the ids of the daemon's list.
func sandboxIDs(ctx context.Context) []string {
	GinkgoHelper()
	rows, err := listSandboxes(ctx, caller)
	Expect(err).NotTo(HaveOccurred())
	ids := []string{}
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return sorted(ids)
}
