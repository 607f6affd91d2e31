package sandboxfunction_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/operatortest"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

var _ = Describe("The source of a function", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	It("that does not load stalls with the line, and the former one goes on", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		change(ctx, fn, func() { fn.Spec.Source.Inline = ptr.To("handler v2\nBROKEN") })
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionSourceInvalidReason))
		Expect(message(fn, v1alpha1.ReadyCondition)).To(Equal("spec.source: line 2: SyntaxError: Unexpected identifier"))
		Expect(conditions.IsTrue(fn, v1alpha1.SandboxFunctionPublishedCondition)).To(BeTrue())
		Expect(call(ctx, "shop::price")).To(Equal("handler v1"))

		change(ctx, fn, func() { fn.Spec.Source.Inline = ptr.To("handler v3") })
		eventually(ctx, fn, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler v3"))
	})

	It("that lacks the handler stalls and is never published", func(ctx SpecContext) {
		fn := function("price", "shop::price", "something else")
		create(ctx, fn)
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionSourceInvalidReason))
		Expect(message(fn, v1alpha1.ReadyCondition)).To(ContainSubstring("defines no function handler"))
		Expect(onBus(ctx, "shop::price")).To(BeFalse())
	})

	It("cannot show a Secret of its runtime by failing", func(ctx SpecContext) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "token"},
			StringData: map[string]string{"token": "hunter2-of-the-runtime"},
		}
		runtime := &v1alpha1.SandboxRuntime{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "own"},
			Spec:       v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguageNode},
		}
		runtime.Spec.Env = []v1alpha1.EnvVar{{Name: "TOKEN", ValueFrom: &v1alpha1.KeySource{
			SecretKeyRef: &v1alpha1.KeyReference{Name: "token", Key: "token"},
		}}}
		fn := function("price", "shop::price", "THROWS handler: hunter2-of-the-runtime is wrong")
		fn.Spec.Language, fn.Spec.RuntimeRef = "", &v1alpha1.LocalReference{Name: "own"}
		create(ctx, secret, runtime, fn)
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionSourceInvalidReason))
		Expect(message(fn, v1alpha1.ReadyCondition)).To(Equal("spec.source: Error: handler: [redacted] is wrong"))
	})

	It("that loads slowly gets a second chance, and a third", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler SLOW")
		create(ctx, fn)
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionSourceInvalidReason))
		Expect(stack.Guest.Plants()).To(Equal(3))
	})

	It("is checked again for another handler", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler and other")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		change(ctx, fn, func() { fn.Spec.Handler = "missing" })
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionSourceInvalidReason))
		Expect(call(ctx, "shop::price")).To(Equal("handler and other"))
		change(ctx, fn, func() { fn.Spec.Handler = "other" })
		eventually(ctx, fn, ready)
	})

	It("comes from a ConfigMap when that exists, and follows it", func(ctx SpecContext) {
		fn := function("price", "shop::price", "")
		fn.Spec.Source = v1alpha1.FunctionSource{ConfigMapKeyRef: &v1alpha1.KeyReference{Name: "code", Key: "price.mjs"}}
		create(ctx, fn)
		eventually(ctx, fn, waiting(v1alpha1.ReferenceNotFoundReason))
		Expect(message(fn, v1alpha1.ReadyCondition)).To(Equal(`spec.source.configMapKeyRef: ConfigMap "code" does not exist`))

		code := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "code"},
			Data:       map[string]string{"price.mjs": "handler v1"},
		}
		create(ctx, code)
		eventually(ctx, fn, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler v1"))

		change(ctx, code, func() { code.Data["price.mjs"] = "handler v2" })
		Eventually(call).WithArguments(ctx, "shop::price").Should(Equal("handler v2"))

		change(ctx, code, func() {
			code.Data = nil
			code.BinaryData = map[string][]byte{"price.mjs": []byte(strings.Repeat(" ", v1alpha1.MaxSourceBytes/2) + "handler")}
		})
		eventually(ctx, fn, ready)
		change(ctx, code, func() { code.BinaryData = map[string][]byte{"price.mjs": {}} })
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionSourceTooLargeReason))
		Expect(message(fn, v1alpha1.ReadyCondition)).To(Equal("spec.source.configMapKeyRef: the source has 0 bytes; it must have 1 to 1048576"))

		change(ctx, code, func() { code.BinaryData = map[string][]byte{"other": []byte("x")} })
		eventually(ctx, fn, waiting(v1alpha1.ReferenceNotFoundReason))
		Expect(message(fn, v1alpha1.ReadyCondition)).To(ContainSubstring(`has no key "price.mjs"`))
	})

	It("is planted again, without haste, while the daemon fails", func(ctx SpecContext) {
		first := function("first", "shop::first", "handler 1")
		create(ctx, first)
		eventually(ctx, first, ready)
		stack.Provider.FailNext(fake.Exec, sandbox.NewTransientError("S400", "busy"), sandbox.NewTransientError("S400", "busy"))
		before := len(stack.Provider.Calls(fake.Exec))
		second := function("second", "shop::second", "handler 2")
		create(ctx, second)
		Eventually(func() int { return len(stack.Provider.Calls(fake.Exec)) }).Should(BeNumerically(">", before))
		Consistently(func() int { return len(stack.Provider.Calls(fake.Exec)) - before }).
			WithTimeout(time.Second).Should(BeNumerically("<=", 2))
		eventually(ctx, second, ready)
		Expect(call(ctx, "shop::second")).To(Equal("handler 2"))
	})

	It("moves to the sandbox that replaces a lost one", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		version := fn.ResourceVersion
		lost, err := stack.Provider.List(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(lost).To(HaveLen(1))
		Expect(stack.Provider.Lose(lost[0].ID)).To(BeTrue())
		Expect(call(ctx, "shop::price")).To(Equal("handler v1"), "a call waits for the new sandbox")
		read(ctx, fn)
		Expect(fn.ResourceVersion).To(Equal(version), "a source that was checked stays Ready")
		Expect(stack.Guest.Plants()).To(Equal(2))
		Expect(stack.Guest.Checks()).To(Equal(1), "and is not checked again")
	})

	It("has its source checked again in a sandbox that was made otherwise", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		runtime := &v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: fn.Status.RuntimeName}}
		change(ctx, runtime, func() { runtime.Spec.Env = []v1alpha1.EnvVar{{Name: "MODE", Value: ptr.To("other")}} })
		Eventually(stack.Guest.Plants).Should(Equal(2))
		Expect(stack.Guest.Checks()).To(Equal(2))
	})
})

var _ = Describe("The id of a function", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{WorkerName: "my-runner"}) })

	It("belongs to the first object; the later one takes nothing and may take over", func(ctx SpecContext) {
		first := function("first", "shop::price", "handler first")
		create(ctx, first)
		eventually(ctx, first, ready)
		later := function("later", "shop::price", "handler later")
		create(ctx, later)
		eventually(ctx, later, stalled(v1alpha1.SandboxFunctionConflictReason))
		Expect(message(later, v1alpha1.StalledCondition)).To(ContainSubstring("SandboxFunction " + stack.Namespace + "/first"))

		third := function("third", "shop::price", "handler third")
		create(ctx, third)
		eventually(ctx, third, stalled(v1alpha1.SandboxFunctionConflictReason))
		Expect(stack.Client.Delete(ctx, third)).To(Succeed())
		Eventually(func() error {
			return client.IgnoreNotFound(stack.Client.Get(ctx, client.ObjectKeyFromObject(third), third))
		}).Should(Succeed())
		Consistently(call).WithArguments(ctx, "shop::price").WithTimeout(300 * time.Millisecond).Should(Equal("handler first"))
		Expect(read(ctx, first)).To(Equal(ready))

		Expect(stack.Client.Delete(ctx, first)).To(Succeed())
		eventually(ctx, later, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler later"))
	})

	It("of another worker stalls the object until that leaves", func(ctx SpecContext) {
		peer, leave, err := stack.Peer(ctx, "shop-worker")
		Expect(err).NotTo(HaveOccurred())
		Expect(peer.RegisterFunction(bus.Function{ID: "shop::price", Handler: answer("theirs")})).To(Succeed())
		Eventually(onBus).WithArguments(ctx, "shop::price").Should(BeTrue())

		fn := function("price", "shop::price", "handler ours")
		create(ctx, fn)
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionConflictReason))
		Expect(message(fn, v1alpha1.StalledCondition)).To(ContainSubstring(`taken by the bus worker "shop-worker"`))
		Expect(call(ctx, "shop::price")).To(Equal("theirs"))

		Expect(leave()).To(Succeed())
		eventually(ctx, fn, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler ours"))
	})

	It("of another worker stays theirs when the object goes", func(ctx SpecContext) {
		peer, _, err := stack.Peer(ctx, "shop-worker")
		Expect(err).NotTo(HaveOccurred())
		Expect(peer.RegisterFunction(bus.Function{ID: "shop::price", Handler: answer("theirs")})).To(Succeed())
		Eventually(onBus).WithArguments(ctx, "shop::price").Should(BeTrue())
		fn := function("price", "shop::price", "handler ours")
		create(ctx, fn)
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionConflictReason))
		Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
		Eventually(func() bool { return stack.Client.Get(ctx, client.ObjectKeyFromObject(fn), fn) != nil }).Should(BeTrue())
		Expect(call(ctx, "shop::price")).To(Equal("theirs"))
	})

	It("under the operator's own name is reserved", func(ctx SpecContext) {
		fn := function("price", "my-runner::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionReservedReason))
		Expect(message(fn, v1alpha1.ReadyCondition)).To(ContainSubstring("my-runner::"))
		Expect(onBus(ctx, "my-runner::price")).To(BeFalse())
	})
})

func answer(text string) bus.Handler {
	return func(context.Context, bus.Invocation) (json.RawMessage, error) { return json.Marshal(text) }
}

var _ = Describe("The runtime of a function", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	runtimes := func(ctx SpecContext) []string {
		var list v1alpha1.SandboxRuntimeList
		Expect(stack.Client.List(ctx, &list, client.InNamespace(stack.Namespace))).To(Succeed())
		names := []string{}
		for _, r := range list.Items {
			names = append(names, r.Name)
		}
		return names
	}

	It("is shared by the functions of one prefix and language, and goes with the last", func(ctx SpecContext) {
		price, stock := function("price", "shop::price", "handler p"), function("stock", "shop::stock", "handler s")
		python, other := function("py", "shop::py", "handler py"), function("other", "bank::other", "handler o")
		python.Spec.Language = v1alpha1.LanguagePython
		all := []*v1alpha1.SandboxFunction{price, stock, python, other}
		for _, fn := range all {
			create(ctx, fn)
		}
		for _, fn := range all {
			eventually(ctx, fn, ready)
		}
		Expect(price.Status.RuntimeName).To(Equal(stock.Status.RuntimeName))
		Expect(runtimes(ctx)).To(ConsistOf(price.Status.RuntimeName, python.Status.RuntimeName, other.Status.RuntimeName))

		Expect(stack.Client.Delete(ctx, price)).To(Succeed())
		Eventually(onBus).WithArguments(ctx, "shop::price").Should(BeFalse())
		Expect(call(ctx, "shop::stock")).To(Equal("handler s"))
		Expect(runtimes(ctx)).To(ContainElement(stock.Status.RuntimeName))
		for _, fn := range all[1:] {
			Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
		}
		Eventually(runtimes).WithArguments(ctx).Should(BeEmpty())
		Eventually(func() (int, error) { l, err := stack.Provider.List(ctx); return len(l), err }).Should(BeZero())
	})

	It("may be missing at first, and be switched off later", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		fn.Spec.Language, fn.Spec.RuntimeRef = "", &v1alpha1.LocalReference{Name: "own"}
		create(ctx, fn)
		eventually(ctx, fn, waiting(v1alpha1.ReferenceNotFoundReason))
		Expect(message(fn, v1alpha1.ReadyCondition)).To(Equal("spec.runtimeRef: SandboxRuntime own does not exist"))

		runtime := &v1alpha1.SandboxRuntime{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "own"},
			Spec:       v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguageNode},
		}
		create(ctx, runtime)
		eventually(ctx, fn, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler v1"))

		change(ctx, runtime, func() { runtime.Spec.Suspend = true })
		eventually(ctx, fn, waiting(v1alpha1.SandboxFunctionRuntimeNotReadyReason))
		Eventually(onBus).WithArguments(ctx, "shop::price").Should(BeFalse())
		change(ctx, runtime, func() { runtime.Spec.Suspend = false })
		eventually(ctx, fn, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler v1"))
	})
})

var _ = Describe("The triggers of a function", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	It("are bound by the engine, replaced and taken back", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		fn.Spec.Triggers = []v1alpha1.FunctionTrigger{httpTrigger("web", "/price")}
		create(ctx, fn)
		eventually(ctx, fn, ready)
		Expect(fn.Status.Triggers).To(Equal([]v1alpha1.FunctionTriggerStatus{{Name: "web", Registered: true}}))
		Expect(conditions.IsTrue(fn, v1alpha1.SandboxFunctionTriggersBoundCondition)).To(BeTrue())

		change(ctx, fn, func() { fn.Spec.Triggers = []v1alpha1.FunctionTrigger{httpTrigger("new", "/new")} })
		Eventually(paths).WithArguments(ctx).Should(ConsistOf(ContainSubstring("/new")))
		eventually(ctx, fn, ready)
		Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
		Eventually(paths).WithArguments(ctx).Should(BeEmpty())
	})

	It("wait for the provider of their type", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		fn.Spec.Triggers = []v1alpha1.FunctionTrigger{{Name: "tick", Type: "clockwork"}}
		create(ctx, fn)
		eventually(ctx, fn, waiting(v1alpha1.SandboxFunctionTriggersPendingReason))
		Expect(fn.Status.Triggers).To(Equal([]v1alpha1.FunctionTriggerStatus{{
			Name: "tick", Message: `waits for a worker on the bus that provides the trigger type "clockwork"`,
		}}))
		Expect(call(ctx, "shop::price")).To(Equal("handler v1"))

		peer, _, err := stack.Peer(ctx, "clock")
		Expect(err).NotTo(HaveOccurred())
		Expect(peer.RegisterTriggerType(bus.TriggerType{
			ID: "clockwork", Description: "ticks",
			Register: func(context.Context, bus.Binding) error { return nil },
		})).To(Succeed())
		eventually(ctx, fn, ready)
		Expect(fn.Status.Triggers).To(Equal([]v1alpha1.FunctionTriggerStatus{{Name: "tick", Registered: true}}))
	})

	It("tell why they were refused", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		fn.Spec.Triggers = []v1alpha1.FunctionTrigger{{Name: "web", Type: "http"}}
		create(ctx, fn)
		eventually(ctx, fn, waiting(v1alpha1.SandboxFunctionTriggersPendingReason))
		Eventually(func() string {
			read(ctx, fn)
			return fn.Status.Triggers[0].Message
		}).Should(HavePrefix("the provider of trigger type http refused it: "))
	})
})

func httpTrigger(name, path string) v1alpha1.FunctionTrigger {
	return v1alpha1.FunctionTrigger{Name: name, Type: "http", Config: &apiextensionsv1.JSON{
		Raw: fmt.Appendf(nil, `{"api_path":%q,"http_method":"GET"}`, path),
	}}
}

// paths are the configurations of all http triggers that the engine lists.
func paths(ctx SpecContext) ([]string, error) {
	list, err := caller.RegisteredTriggers(ctx, "")
	var configs []string
	for _, t := range list {
		if t.TriggerType == "http" {
			configs = append(configs, string(t.Config))
		}
	}
	return configs, err
}
