package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

// beTrue matches a condition that is true for a reason, in words that say where
// to look.
func beTrue(reason string, words ...string) OmegaMatcher {
	message := []OmegaMatcher{}
	for _, word := range words {
		message = append(message, ContainSubstring(word))
	}
	return be(metav1.ConditionTrue, reason, And(message...))
}

func be(status metav1.ConditionStatus, reason string, message OmegaMatcher) OmegaMatcher {
	return MatchFields(IgnoreExtras, Fields{"Status": Equal(status), "Reason": Equal(reason), "Message": message})
}

var _ = Describe("A function that cannot be served", func() {
	DescribeTable("is Stalled because of its source", func(ctx SpecContext, language v1alpha1.Language, source string, words ...string) {
		namespace := newNamespace(ctx)
		before := functionsOnBus(ctx)
		f := newFunction(namespace, "broken", language, source)
		apply(ctx, f)
		Eventually(ctx, condition(f, "Stalled")).Should(beTrue("SourceInvalid", append(words, "spec.source")...))
		Expect(condition(f, "Ready")(ctx)).To(HaveField("Status", metav1.ConditionFalse))
		Expect(functionsOnBus(ctx)).To(Equal(before))

		By("healing with a good source")
		good := nodeEcho
		if language == v1alpha1.LanguagePython {
			good = pythonEcho
		}
		apply(ctx, newFunction(namespace, "broken", language, good))
		waitFor(ctx, f, "Ready", "sbf")
		Expect(call(ctx, f.Spec.FunctionID, 1)).To(Equal("1"))
	},
		Entry("without a handler, Node", specPatience, v1alpha1.LanguageNode, "export const nothing = 1;\n", "handler"),
		Entry("without a handler, Python", specPatience, v1alpha1.LanguagePython, "nothing = 1\n", "handler"),
		Entry("that does not parse, Node", specPatience, v1alpha1.LanguageNode, "\nexport function handler( { return 1; }\n", "line 2"),
		Entry("that does not parse, Python", specPatience, v1alpha1.LanguagePython, "x = 1\n\ndef handler(payload context):\n    pass\n", "line 3"),
		Entry("that throws while it loads, Node", specPatience, v1alpha1.LanguageNode, "export function handler() {}\n\nthrow new Error('no luck');\n", "line 3", "no luck"),
		Entry("that raises while it loads, Python", specPatience, v1alpha1.LanguagePython, "def handler(p, c): pass\nraise ValueError('no luck')\n", "line 2", "no luck"),
	)

	It("goes on with its former source when the new one does not load", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "careful", v1alpha1.LanguageNode, nodeEcho)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		apply(ctx, newFunction(f.Namespace, f.Name, v1alpha1.LanguageNode, "export function handler() {\n  return }} 1;\n}\n"))
		Eventually(ctx, condition(f, "Stalled")).Should(beTrue("SourceInvalid", "line 2"))
		Expect(call(ctx, f.Spec.FunctionID, 7)).To(Equal("7"))
	}, specPatience)

	It("is Stalled if another namespace has its id, and takes nothing with it when it goes", func(ctx SpecContext) {
		first, second := newNamespace(ctx), newNamespace(ctx)
		owner := newFunction(first, "owner", v1alpha1.LanguageNode, "export const handler = () => 'owner';\n")
		apply(ctx, owner)
		waitFor(ctx, owner, "Ready", "sbf")
		expectNoChange(ctx, func() {
			later := newFunction(second, "later", v1alpha1.LanguageNode, "export const handler = () => 'later';\n")
			later.Spec.FunctionID = owner.Spec.FunctionID
			apply(ctx, later)
			Eventually(ctx, condition(later, "Stalled")).Should(beTrue("PrefixTaken", "spec.functionID", first+"/owner"))
			Expect(call(ctx, owner.Spec.FunctionID, m{})).To(Equal(`"owner"`))
			kubectl(ctx, "delete", "-n", second, "sbf/later", "--timeout=30s")
		})
		Expect(call(ctx, owner.Spec.FunctionID, m{})).To(Equal(`"owner"`))
		Expect(condition(owner, "Ready")(ctx)).To(HaveField("Status", metav1.ConditionTrue))
	}, specPatience)

	It("waits for an id prefix that another namespace uses, and takes it over", func(ctx SpecContext) {
		first, second := newNamespace(ctx), newNamespace(ctx)
		owner := newFunction(first, "owner", v1alpha1.LanguageNode, "export const handler = () => 'owner';\n")
		apply(ctx, owner)
		waitFor(ctx, owner, "Ready", "sbf")
		heir := newFunction(second, "heir", v1alpha1.LanguageNode, "export const handler = () => 'heir';\n")
		heir.Spec.FunctionID = owner.Spec.FunctionID
		apply(ctx, heir)
		Eventually(ctx, condition(heir, "Stalled")).Should(beTrue("PrefixTaken", "spec.functionID", first+"/owner"))
		kubectl(ctx, "delete", "-n", first, "sbf/owner", "--timeout=30s")
		waitFor(ctx, heir, "Ready", "sbf")
		Expect(call(ctx, heir.Spec.FunctionID, m{})).To(Equal(`"heir"`))
	}, specPatience)

	It("is Stalled if a worker on the bus has its id, and leaves that worker alone", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "foreign", v1alpha1.LanguageNode, nodeEcho)
		stranger := connectBus(ctx, running.BusURL, "e2e-stranger")
		Expect(stranger.RegisterFunction(bus.Function{ID: f.Spec.FunctionID, Handler: answerWith(`"stranger"`)})).To(Succeed())
		Eventually(ctx, functionsOnBus).Should(ContainElement(f.Spec.FunctionID))
		apply(ctx, f)
		Eventually(ctx, condition(f, "Stalled")).Should(beTrue("FunctionIDTaken", "e2e-stranger"))
		kubectl(ctx, "delete", "-n", f.Namespace, "sbf/foreign", "--timeout=30s")
		Expect(call(ctx, f.Spec.FunctionID, m{})).To(Equal(`"stranger"`))
	}, specPatience)

	It("is Stalled if its ConfigMap holds an empty source, and waits while there is none", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		f := newFunction(namespace, "stored", v1alpha1.LanguagePython, "")
		f.Spec.Source = v1alpha1.FunctionSource{ConfigMapKeyRef: &v1alpha1.KeyReference{Name: "code", Key: "main.py"}}
		apply(ctx, f)
		Eventually(ctx, condition(f, "Ready")).Should(be(metav1.ConditionFalse, "ReferenceNotFound", ContainSubstring("code")))
		code := object(&corev1.ConfigMap{}, namespace, "code")
		code.Data = map[string]string{"main.py": ""}
		apply(ctx, code)
		Eventually(ctx, condition(f, "Stalled")).Should(beTrue("SourceSize", "spec.source.configMapKeyRef", "0 bytes"))
		code.Data["main.py"] = pythonEcho
		apply(ctx, code)
		Eventually(ctx, condition(f, "Ready")).Should(beTrue("Ready"))
		Expect(call(ctx, f.Spec.FunctionID, 3)).To(Equal("3"))
		Expect(kube.Delete(ctx, code)).To(Succeed())
	}, specPatience)

	It("waits for a runtime that does not exist, boots nothing, and goes on when it does", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		f := newFunction(namespace, "waiting", "", nodeEcho)
		f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "later"}
		run := inRuntime(newRun(namespace, "waiting", v1alpha1.LanguageNode, "console.log('ran')"), "later")
		apply(ctx, f)
		apply(ctx, run)
		for _, waiting := range []conditioned{f, run} {
			Eventually(ctx, condition(waiting, "Ready")).Should(be(metav1.ConditionFalse, "ReferenceNotFound", MatchRegexp(`SandboxRuntime "?later"? does not exist`)))
		}
		Expect(countSandboxes(ctx)).To(BeZero())
		apply(ctx, newRuntime(namespace, "later", v1alpha1.LanguageNode))
		waitFor(ctx, f, "Ready", "sbf")
		waitFor(ctx, run, "Complete", "sbn")
		Expect(kube.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
		Expect(run.Status.Stdout).To(Equal("ran\n"))
	}, specPatience)
})
