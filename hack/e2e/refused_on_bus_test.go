package e2e

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

func answerWith(text string) bus.Handler {
	return func(context.Context, bus.Invocation) (json.RawMessage, error) { return json.RawMessage(text), nil }
}

var _ = Describe("A call on the bus", func() {
	big := strings.Repeat("x", v1alpha1.MaxSourceBytes+1)
	unknown := "rt-" + uuid.NewString()

	// code is `<worker>::<code>` in the error's text (contracts/code-runner.md §5.1).
	DescribeTable("is refused and changes nothing", func(ctx SpecContext, function string, payload any, code string, words ...string) {
		expectNoChange(ctx, func() { expectBusRefusal(ctx, function, payload, code, words...) })
	},
		Entry("run without a language", specPatience, runFunction, m{"code": "1"}, "invalid_request", "lang"),
		Entry("run in a wrong language", specPatience, runFunction, m{"code": "1", "lang": "ruby"}, "invalid_request", "lang", "node", "python"),
		Entry("run without code", specPatience, runFunction, m{"lang": "node"}, "invalid_request", "code"),
		Entry("run with empty code", specPatience, runFunction, m{"lang": "node", "code": ""}, "invalid_request", "code is empty"),
		Entry("run with oversized code", specPatience, runFunction, m{"lang": "node", "code": big}, "invalid_request", "code has 1048577 bytes"),
		Entry("run with a timeout that is no number", specPatience, runFunction, m{"lang": "node", "code": "1", "timeout_ms": "soon"}, "invalid_request", "timeout_ms"),
		Entry("run that is no object", specPatience, runFunction, []int{1}, "invalid_request", "JSON object"),
		Entry("run in an unknown runtime", specPatience, runFunction, m{"code": "1", "runtime_id": unknown}, "runtime_not_found", "unknown runtime_id"),
		Entry("register without a source", specPatience, registerFunction, m{"function_id": "e2e::x", "lang": "node"}, "invalid_request", "source"),
		Entry("register with an empty source", specPatience, registerFunction, m{"function_id": "e2e::x", "lang": "node", "source": ""}, "invalid_request", "source is empty"),
		Entry("register with an oversized source", specPatience, registerFunction, m{"function_id": "e2e::x", "lang": "node", "source": big}, "invalid_request", "source has 1048577 bytes"),
		Entry("register in a wrong language", specPatience, registerFunction, m{"function_id": "e2e::x", "lang": "Node", "source": nodeEcho}, "invalid_request", "lang"),
		Entry("register without a prefix", specPatience, registerFunction, m{"function_id": "price", "lang": "node", "source": nodeEcho}, "invalid_request", "function_id"),
		Entry("register under a prefix in capitals", specPatience, registerFunction, m{"function_id": "Shop::x", "lang": "node", "source": nodeEcho}, "invalid_request", "Shop"),
		Entry("register under a reserved prefix", specPatience, registerFunction, m{"function_id": "engine::x", "lang": "node", "source": nodeEcho}, "invalid_request", "belongs to the engine"),
		Entry("register under the operator's prefix", specPatience, registerFunction, m{"function_id": "sandbox-code-runner::x", "lang": "node", "source": nodeEcho}, "invalid_request", "sandbox-code-runner"),
		Entry("register the operator's own id", specPatience, registerFunction, m{"function_id": runFunction, "lang": "node", "source": nodeEcho}, "invalid_request", "already registered"),
		Entry("register a source without a handler, Node", specPatience, registerFunction, m{"function_id": "e2e::x", "lang": "node", "source": "export const a = 1;\n"}, "invalid_request", "handler"),
		Entry("register a source without a handler, Python", specPatience, registerFunction, m{"function_id": "e2e::x", "lang": "python", "source": "a = 1\n"}, "invalid_request", "handler"),
		Entry("register a source that does not parse, Node", specPatience, registerFunction, m{"function_id": "e2e::x", "lang": "node", "source": "\n\nfunction {\n"}, "invalid_request", "line 3"),
		Entry("register a source that does not parse, Python", specPatience, registerFunction, m{"function_id": "e2e::x", "lang": "python", "source": "a = 1\nif\n"}, "invalid_request", "line 2"),
		Entry("run with a variable of the operator", specPatience, runFunction, m{"lang": "node", "code": "1", "env": m{"III_URL": "x"}}, "invalid_request", "III_"),
		Entry("run with a file outside its folder", specPatience, runFunction, m{"lang": "node", "code": "1", "files": []m{{"path": "../x", "content": ""}}}, "invalid_request", "../x"),
		Entry("run with packages in a kept runtime", specPatience, runFunction, m{"code": "1", "runtime_id": unknown, "packages": []string{"left-pad"}}, "invalid_request", "packages"),
		Entry("register with a format that says nothing", specPatience, registerFunction, m{"function_id": "e2e::x", "lang": "node", "source": nodeEcho, "request_format": m{}}, "invalid_request", "request_format"),
		Entry("teardown by force", specPatience, teardownFunction, m{"namespace": "e2e-nobody", "force": true}, "invalid_request", "--allow-force-teardown"),
		Entry("teardown of nothing", specPatience, teardownFunction, m{}, "invalid_request", "runtime_id", "namespace"),
		Entry("teardown of two things", specPatience, teardownFunction, m{"namespace": "a", "runtime_id": unknown}, "invalid_request", "not both"),
		Entry("teardown of an unknown runtime", specPatience, teardownFunction, m{"runtime_id": unknown}, "runtime_not_found", "unknown runtime_id"),
		Entry("teardown of an unknown namespace", specPatience, teardownFunction, m{"namespace": "e2e-nobody"}, "runtime_not_found", "e2e-nobody::"),
		Entry("teardown of a namespace that cannot be", specPatience, teardownFunction, m{"namespace": "A b"}, "invalid_request", "A b"),
	)

	It("does not take an id that an object has, nor tear it down", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "mine", v1alpha1.LanguageNode, nodeEcho)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		expectNoChange(ctx, func() {
			expectBusRefusal(ctx, registerFunction, m{"function_id": f.Spec.FunctionID, "lang": "python", "source": pythonEcho},
				"invalid_request", "already registered", f.Namespace+"/"+f.Name)
			expectBusRefusal(ctx, registerFunction, m{"function_id": f.Spec.FunctionID, "lang": "node", "source": nodeEcho, "replace": true},
				"invalid_request", "not made over the bus")
			expectBusRefusal(ctx, teardownFunction, m{"namespace": f.Namespace}, "runtime_not_found", f.Namespace, "kubectl")
		})
		Expect(call(ctx, f.Spec.FunctionID, 1)).To(Equal("1"))
	}, specPatience)

	It("does not take an id that another worker has", func(ctx SpecContext) {
		const id = "e2e-foreign::taken"
		stranger := connectBus(ctx, running.BusURL, "e2e-stranger")
		Expect(stranger.RegisterFunction(bus.Function{ID: id, Handler: answerWith("1")})).To(Succeed())
		Eventually(ctx, functionsOnBus).Should(ContainElement(id))
		expectNoChange(ctx, func() {
			expectBusRefusal(ctx, registerFunction, m{"function_id": id, "lang": "node", "source": nodeEcho},
				"invalid_request", "already registered")
		})
		Expect(call(ctx, id, m{})).To(Equal("1"))
	}, specPatience)

	It("does not run another language in a kept runtime, which goes on", func(ctx SpecContext) {
		id := keepRuntime(ctx, "node", "console.log(1)")
		expectNoChange(ctx, func() {
			expectBusRefusal(ctx, runFunction, m{"code": "print(1)", "lang": "python", "runtime_id": id},
				"invalid_request", "lang", "languages cannot be mixed")
		})
		Expect(runOnBus(ctx, m{"code": "console.log(2)", "runtime_id": id}).Stdout).To(Equal("2\n"))
	}, specPatience)
})

func expectBusRefusal(ctx context.Context, function string, payload any, code string, words ...string) {
	GinkgoHelper()
	_, err := tryCall(ctx, function, payload)
	Expect(err).To(MatchError(ContainSubstring("sandbox-code-runner::" + code + ": ")))
	for _, word := range words {
		Expect(err).To(MatchError(ContainSubstring(word)))
	}
}
