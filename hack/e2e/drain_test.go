package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

// holdingHandler answers with the version of its sandbox, if asked to hold only
// once released.
const holdingHandler = `
import { existsSync, writeFileSync } from 'node:fs';
export async function handler({ hold }) {
  if (hold) writeFileSync('/begun', '');
  while (hold && !existsSync('/released')) await new Promise((resolve) => setTimeout(resolve, 50));
  return process.env.VERSION ?? 'none';
}
`

// heldCall is a call that goes on in the one sandbox there is until it is released.
type heldCall struct {
	sandbox string
	ended   chan heldAnswer
}

type heldAnswer struct {
	answer string
	err    error
}

// hold calls a function with holdingHandler, and returns once the handler runs.
func hold(ctx context.Context, function string) heldCall {
	GinkgoHelper()
	ids := sandboxIDs(ctx)
	Expect(ids).To(HaveLen(1))
	h := heldCall{sandbox: ids[0], ended: make(chan heldAnswer, 1)}
	go func() {
		defer GinkgoRecover()
		answer, err := tryCall(ctx, function, m{"hold": true})
		h.ended <- heldAnswer{string(answer), err}
	}()
	Eventually(ctx, func(ctx context.Context) (int, error) { return h.exec(ctx, "test", "-e", "/begun") }).
		Should(BeZero(), "the handler does not run")
	return h
}

// exec runs a program in the sandbox of the call, past the operator, and returns
// its exit code.
func (h heldCall) exec(ctx context.Context, argv ...string) (exitCode int, err error) {
	type response struct {
		ExitCode int `json:"exit_code"`
	}
	answer, err := bus.Invoke[response](ctx, caller, "sandbox::exec", m{"sandbox_id": h.sandbox, "argv": argv})
	return answer.ExitCode, err
}

func (h heldCall) release(ctx context.Context) {
	GinkgoHelper()
	Expect(h.exec(ctx, "touch", "/released")).To(BeZero())
}

// sandboxLives keeps the id, which is a secret, out of failure messages.
func (h heldCall) sandboxLives(ctx context.Context) (bool, error) {
	rows, err := listSandboxes(ctx, caller)
	for _, row := range rows {
		if row.ID == h.sandbox {
			return true, err
		}
	}
	return false, err
}

// expectGoesOn is for longer than the operator takes to look at what drains.
func (h heldCall) expectGoesOn(ctx context.Context) {
	GinkgoHelper()
	Consistently(ctx, h.sandboxLives).WithTimeout(2*time.Second).WithPolling(100*time.Millisecond).
		Should(BeTrue(), "the sandbox went with a call in it")
	Expect(h.ended).NotTo(Receive())
}

func (h heldCall) expectAnswer(ctx context.Context, version string) {
	GinkgoHelper()
	var got heldAnswer
	Eventually(ctx, h.ended).Should(Receive(&got))
	Expect(got.err).NotTo(HaveOccurred())
	Expect(got.answer).To(MatchJSON(version))
	Eventually(ctx, h.sandboxLives).Should(BeFalse(), "the sandbox stays after its last call")
}

// newHeld describes a function with holdingHandler, whose calls may take long.
func newHeld(namespace string) *v1alpha1.SandboxFunction {
	f := newFunction(namespace, "held", v1alpha1.LanguageNode, holdingHandler)
	f.Spec.TimeoutMilliseconds = ptr.To[int32](120_000)
	return f
}

// newVersioned describes a runtime whose programs know a version.
func newVersioned(namespace, version string) *v1alpha1.SandboxRuntime {
	runtime := newRuntime(namespace, "versioned", v1alpha1.LanguageNode)
	runtime.Spec.Env = []v1alpha1.EnvVar{variable("VERSION", version)}
	return runtime
}

// applyVersioned serves a function from such a runtime.
func applyVersioned(ctx context.Context, namespace string, adjust ...func(*v1alpha1.SandboxRuntime)) *v1alpha1.SandboxFunction {
	GinkgoHelper()
	runtime := newVersioned(namespace, "old")
	for _, a := range adjust {
		a(runtime)
	}
	apply(ctx, runtime)
	f := newHeld(namespace)
	f.Spec.Language, f.Spec.RuntimeRef = "", &v1alpha1.LocalReference{Name: "versioned"}
	apply(ctx, f)
	waitFor(ctx, f, "Ready", "sbf")
	return f
}

// refusal returns a function for Eventually: what a caller is told now.
func refusal(function string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := tryCall(ctx, function, m{})
		return err
	}
}

var inFlight = regexp.MustCompile(`(?m)^sandbox_function_calls_in_flight (\d+)`)

// callsInFlight is the operator's own count of calls without an answer.
func callsInFlight(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, running.MetricsURL, nil)
	if err != nil {
		return "", err
	}
	_, text, err := exchange(request)
	if found := inFlight.FindSubmatch(text); found != nil {
		return string(found[1]), err
	}
	return "", err
}

var _ = Describe("A call that goes on", func() {
	It("while its runtime is replaced ends in the old sandbox, which goes after it; others are answered meanwhile", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		f := applyVersioned(ctx, namespace)
		held := hold(ctx, f.Spec.FunctionID)
		stop := callMeanwhile(ctx, f.Spec.FunctionID)

		runtime := newVersioned(namespace, "new")
		apply(ctx, runtime)
		Eventually(ctx, answers(f.Spec.FunctionID, m{})).Should(MatchJSON(`"new"`))
		held.expectGoesOn(ctx)
		Expect(answers(f.Spec.FunctionID, m{})(ctx)).To(MatchJSON(`"new"`))
		Expect(kubectl(ctx, "get", "sbr", runtime.Name, "-n", namespace)).To(MatchRegexp(`(?m)^versioned +Node +Unknown +Booting +2 `))

		held.release(ctx)
		held.expectAnswer(ctx, `"old"`)
		waitFor(ctx, runtime, "Ready", "sbr")
		Expect(runtime.Status.Replicas).To(BeEquivalentTo(1))
		Expect(stop()).To(And(ContainElement(MatchJSON(`"new"`)), HaveEach(Or(MatchJSON(`"old"`), MatchJSON(`"new"`)))))
	}, specPatience)

	It("while its function is deleted is answered, and the shared runtime goes after it", func(ctx SpecContext) {
		f := newHeld(newNamespace(ctx))
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		held := hold(ctx, f.Spec.FunctionID)

		kubectl(ctx, "delete", "sbf", f.Name, "-n", f.Namespace, "--timeout=40s")
		Eventually(ctx, refusal(f.Spec.FunctionID)).Should(MatchError(ContainSubstring("function_not_found")))
		held.expectGoesOn(ctx)

		held.release(ctx)
		held.expectAnswer(ctx, `"none"`)
		Eventually(ctx, objectsEverywhere).ShouldNot(ContainElement(ContainSubstring("SandboxRuntime")))
	}, specPatience)

	It("while a caller tears its function down is answered before the teardown is", func(ctx SpecContext) {
		const id = "e2e-held::f"
		registerOnBus(ctx, id, "node", holdingHandler)
		held := hold(ctx, id)
		torn := make(chan json.RawMessage, 1)
		go func() {
			defer GinkgoRecover()
			answer, err := tryCall(ctx, teardownFunction, m{"namespace": "e2e-held"})
			Expect(err).NotTo(HaveOccurred())
			torn <- answer
		}()
		Eventually(ctx, functionsOnBus).ShouldNot(ContainElement(id))
		held.expectGoesOn(ctx)
		Expect(torn).NotTo(Receive(), "the teardown did not wait")

		held.release(ctx)
		held.expectAnswer(ctx, `"none"`)
		Eventually(ctx, torn).Should(Receive(MatchJSON(`{"namespace":"e2e-held::","torn_down":true,"unregistered":["` + id + `"]}`)))
	}, specPatience)

	DescribeTable("while nothing new is wanted is answered, and what waits behind it is not", func(ctx SpecContext, end ...string) {
		namespace := newNamespace(ctx)
		f := applyVersioned(ctx, namespace, func(r *v1alpha1.SandboxRuntime) { r.Spec.Concurrency = ptr.To[int32](1) })
		held := hold(ctx, f.Spec.FunctionID)
		waiting := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			_, err := tryCall(ctx, f.Spec.FunctionID, m{})
			waiting <- err
		}()
		Eventually(ctx, callsInFlight).Should(Equal("2"))

		kubectl(ctx, append(end, "-n", namespace)...)
		Eventually(ctx, waiting).Should(Receive(MatchError(ContainSubstring("sandbox-code-runner::expired: "))))
		Eventually(ctx, refusal(f.Spec.FunctionID)).Should(MatchError(ContainSubstring("function_not_found")))
		held.expectGoesOn(ctx)
		held.release(ctx)
		var got heldAnswer
		Eventually(ctx, held.ended).Should(Receive(&got))
		Expect(got.err).NotTo(HaveOccurred())
		Expect(got.answer).To(MatchJSON(`"old"`))
	},
		Entry("by a suspended function", specPatience, "patch", "sbf/held", "--type=merge", "-p", `{"spec":{"suspend":true}}`),
		Entry("by a deleted function", specPatience, "delete", "sbf/held", "--timeout=40s"),
		Entry("by a suspended runtime", specPatience, "patch", "sbr/versioned", "--type=merge", "-p", `{"spec":{"suspend":true}}`),
		Entry("by a runtime scaled to zero", specPatience, "scale", "sbr/versioned", "--replicas=0"),
	)

	It("while its runtime is deleted ends with it, and says so", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		f := applyVersioned(ctx, namespace)
		held := hold(ctx, f.Spec.FunctionID)
		kubectl(ctx, "delete", "sbr", "versioned", "-n", namespace, "--timeout=40s")
		var got heldAnswer
		Eventually(ctx, held.ended).Should(Receive(&got))
		Expect(got.err).To(MatchError(ContainSubstring("sandbox-code-runner::engine: the sandbox was lost during the call; the handler may have run")))
		Eventually(ctx, held.sandboxLives).Should(BeFalse())
		Eventually(ctx, condition(f, "Ready")).Should(be(metav1.ConditionFalse, "ReferenceNotFound", ContainSubstring("SandboxRuntime versioned does not exist")))
	}, specPatience)
})
