package sandboxfunction_test

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/controllers/operatortest"
)

func schema(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

var _ = Describe("The schemas of a function", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	callWith := func(ctx SpecContext, payload string) error {
		_, err := caller.Call(ctx, bus.Call{FunctionID: "shop::price", Data: json.RawMessage(payload)})
		return err
	}

	It("are only shown, or enforced, as schemaPolicy says", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		fn.Spec.RequestSchema = schema(`{"type":"object","properties":{"qty":{"type":"integer"}},"additionalProperties":false}`)
		create(ctx, fn)
		eventually(ctx, fn, ready)
		Expect(callWith(ctx, `{"qty":"two"}`)).To(Succeed())

		change(ctx, fn, func() { fn.Spec.SchemaPolicy = v1alpha1.SchemaEnforce })
		eventually(ctx, fn, ready)
		Expect(callWith(ctx, `{"qty":2}`)).To(Succeed(), "what the engine adds to a payload does not count")
		Expect(callWith(ctx, `{"qty":"two"}`)).To(MatchError(ContainSubstring(
			"sandbox-code-runner::invalid_request: payload: /qty: is string, must be integer")))

		// The guest answers with its source, a string.
		change(ctx, fn, func() { fn.Spec.ResponseSchema = schema(`{"type":"number"}`) })
		eventually(ctx, fn, ready)
		Expect(callWith(ctx, `{}`)).To(MatchError(ContainSubstring(
			"sandbox-code-runner::handler_error: result: /: is string, must be number")))
	})

	It("that cannot be enforced stall the function and leave the former ones at work", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		fn.Spec.SchemaPolicy, fn.Spec.RequestSchema = v1alpha1.SchemaEnforce, schema(`{"maxProperties":1}`)
		create(ctx, fn)
		eventually(ctx, fn, ready)
		for broken, says := range map[string]string{
			`{"properties":{"qty":{"type":"int"}}}`:                 "spec.requestSchema: /properties/qty/type: ",
			`{"$ref":"https://example.com/order.json"}`:             "spec.requestSchema: https://example.com/order.json cannot be read",
			`{"description":"` + strings.Repeat("x", 64<<10) + `"}`: "spec.requestSchema: the schema has ",
		} {
			change(ctx, fn, func() { fn.Spec.RequestSchema = schema(broken) })
			Eventually(func() string { read(ctx, fn); return message(fn, v1alpha1.StalledCondition) }).Should(HavePrefix(says))
			eventually(ctx, fn, stalled(v1alpha1.InvalidSpecReason))
			Expect(callWith(ctx, `{}`)).To(Succeed())
			Expect(callWith(ctx, `{"a":1,"b":2}`)).To(MatchError(ContainSubstring("invalid_request")))
		}
		change(ctx, fn, func() { fn.Spec.RequestSchema = schema(`{"maxProperties":2}`) })
		eventually(ctx, fn, ready)
		Expect(callWith(ctx, `{"a":1,"b":2}`)).To(Succeed())
	})
})

var _ = Describe("An inline source", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	It("is not in the operator's memory, and no write of the operator takes it from the object", func(ctx SpecContext) {
		source := "handler " + strings.Repeat("x", v1alpha1.MaxInlineSourceBytes-len("handler "))
		fn := function("price", "shop::price", source)
		create(ctx, fn)
		eventually(ctx, fn, ready)
		Expect(fn.Finalizers).To(ContainElement(v1alpha1.FunctionFinalizer), "the finalizer was never written")
		Expect(fn.Spec.Source.Inline).To(HaveValue(Equal(source)))
		Expect(fn.Annotations).To(BeEmpty(), "what stands for the source in memory was written")
		Expect(call(ctx, "shop::price")).To(Equal(source))

		change(ctx, fn, func() { fn.Spec.Suspend = true })
		eventually(ctx, fn, state{Ready: metav1.ConditionTrue, Reason: v1alpha1.SuspendedReason, Settled: true, Current: true})
		change(ctx, fn, func() { fn.Spec.Suspend = false })
		eventually(ctx, fn, ready)
		Expect(fn.Spec.Source.Inline).To(HaveValue(Equal(source)))

		By("refusing to write an object as it is in memory")
		cached := fn.DeepCopy()
		cached.Spec.Source.Inline = nil
		Expect(stack.Client.Update(ctx, cached)).To(MatchError(ContainSubstring("exactly one of inline and configMapKeyRef")))
	})

	It("is planted again after a restart, from the API server", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		Expect(stack.StopOperator()).To(Succeed())
		Expect(stack.Client.Get(ctx, client.ObjectKeyFromObject(fn), fn)).To(Succeed())
		fn.Spec.Source.Inline = ptr.To("handler v2")
		Expect(stack.Client.Update(ctx, fn)).To(Succeed())
		Expect(stack.StartOperator(ctx)).To(Succeed())
		eventually(ctx, fn, ready)
		Eventually(call).WithArguments(ctx, "shop::price").Should(Equal("handler v2"))
	})
})
