package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

var _ = Describe("kubectl", Ordered, ContinueOnFailure, func() {
	var namespace string

	get := func(ctx SpecContext, arguments ...string) string {
		GinkgoHelper()
		return mustKubectl(ctx, append([]string{"get", "--namespace", namespace}, arguments...)...)
	}

	BeforeAll(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		createReported(ctx, namespace)
	})

	It("lists all kinds by their category", func(ctx SpecContext) {
		Expect(strings.Fields(get(ctx, "sandbox", "-o", "name"))).To(ConsistOf(
			"sandboxruntime.sandbox.iii.dev/python",
			"sandboxfunction.sandbox.iii.dev/price",
			"sandboxrun.sandbox.iii.dev/hello",
		))
	})

	DescribeTable("shows columns under the short name", func(ctx SpecContext, shortName string, header, row []string) {
		lines := strings.Split(strings.TrimSpace(get(ctx, shortName)), "\n")
		Expect(lines).To(HaveLen(2))
		Expect(strings.Fields(lines[0])).To(Equal(append(header, "AGE")))
		Expect(strings.Fields(lines[1])[:len(row)]).To(Equal(row))
	},
		Entry("of runtimes", "sbr",
			[]string{"NAME", "LANGUAGE", "READY", "REASON", "SANDBOXES", "FUNCTIONS"},
			[]string{"python", "Python", "True", "Ready", "1", "2"}),
		Entry("of functions", "sbf",
			[]string{"NAME", "FUNCTION", "READY", "REASON", "RUNTIME"},
			[]string{"price", "shop::price", "True", "Ready", "python"}),
		Entry("of runs", "sbn",
			[]string{"NAME", "LANGUAGE", "PHASE", "EXIT", "REASON"},
			[]string{"hello", "Node", "Failed", "3", "NonZeroExitCode"}),
	)

	It("shows more columns when asked", func(ctx SpecContext) {
		Expect(get(ctx, "sbr", "-o", "wide")).To(And(ContainSubstring("ISOLATION"), ContainSubstring("namespaces"),
			ContainSubstring("MESSAGE"), ContainSubstring("one sandbox takes calls")))
		Expect(get(ctx, "sbf", "-o", "wide")).To(And(ContainSubstring("MESSAGE"), ContainSubstring("answers on the bus")))
		Expect(get(ctx, "sbn", "-o", "wide")).To(And(ContainSubstring("MESSAGE"), ContainSubstring("the program exited with 3")))
	})

	It("scales a runtime", func(ctx SpecContext) {
		mustKubectl(ctx, "scale", "sbr/python", "--namespace", namespace, "--current-replicas=1", "--replicas=3")
		Expect(get(ctx, "sbr/python", "-o", "jsonpath={.spec.replicas}")).To(Equal("3"))
	})

	// The API server stores no default, so that there is nothing to read before
	// somebody has written a number.
	It("scales a runtime whose replicas nobody wrote, which an autoscaler finds then", func(ctx SpecContext) {
		unwritten := runtimeKind.object(namespace)
		unwritten.SetName("unwritten")
		Expect(apiClient.Create(ctx, unwritten)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(apiClient.Delete(ctx, unwritten)).To(Succeed()) })
		scale := v1alpha1.GroupVersion.String() + "/namespaces/" + namespace + "/sandboxruntimes/unwritten/scale"
		_, err := kubectl(ctx, "get", "--raw", "/apis/"+scale)
		Expect(err).To(MatchError(ContainSubstring(`the spec replicas field ".spec.replicas" does not exist`)))
		mustKubectl(ctx, "scale", "sbr/unwritten", "--namespace", namespace, "--replicas=2")
		Expect(mustKubectl(ctx, "get", "--raw", "/apis/"+scale)).To(ContainSubstring(`"spec":{"replicas":2}`))
	})

	It("refuses a scale out of bounds", func(ctx SpecContext) {
		_, err := kubectl(ctx, "scale", "sbr/python", "--namespace", namespace, "--replicas=65")
		Expect(err).To(MatchError(And(ContainSubstring("spec.replicas"), ContainSubstring("64"))))
	})

	It("waits for conditions", func(ctx SpecContext) {
		mustKubectl(ctx, "wait", "sbf/price", "--for=condition=Ready", "--namespace", namespace, "--timeout=10s")
		mustKubectl(ctx, "wait", "sbn/hello", "--for=condition=Failed", "--namespace", namespace, "--timeout=10s")
	})

	It("says in time that a condition does not come", func(ctx SpecContext) {
		_, err := kubectl(ctx, "wait", "sbn/hello", "--for=condition=Complete", "--namespace", namespace, "--timeout=1s")
		Expect(err).To(MatchError(ContainSubstring("timed out waiting for the condition on sandboxruns/hello")))
	})

	It("shows what an apply would change, and what it would refuse", func(ctx SpecContext) {
		change := func(line string) string {
			return manifest("apiVersion: sandbox.iii.dev/v1alpha1\nkind: SandboxFunction\nmetadata: {name: price}\n" +
				"spec: {functionID: \"shop::price\", runtimeRef: {name: python}, source: {inline: x}, " + line + "}\n")
		}
		output, err := kubectl(ctx, "diff", "--namespace", namespace, "-f", change("timeoutMilliseconds: 5"))
		Expect(err).To(HaveOccurred(), "it exits with 1 if there is a difference")
		Expect(output).To(ContainSubstring("+  timeoutMilliseconds: 5"))
		_, err = kubectl(ctx, "diff", "--namespace", namespace, "-f", change("timeoutMilliseconds: 0"))
		Expect(err).To(MatchError(ContainSubstring("spec.timeoutMilliseconds")))
	})

	It("finds nothing changed after an apply", func(ctx SpecContext) {
		fresh := newNamespace(ctx)
		for _, sample := range applicableSamples() {
			mustKubectl(ctx, "apply", "--namespace", fresh, "-f", sample)
			mustKubectl(ctx, "diff", "--namespace", fresh, "-f", sample)
		}
	})
})

// createReported makes one object of each kind with a status as the operator
// would write it.
func createReported(ctx SpecContext, namespace string) {
	GinkgoHelper()
	one := int32(1)
	runtime := &v1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{Name: "python", Namespace: namespace},
		Spec:       v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguagePython, RuntimeScale: v1alpha1.RuntimeScale{Replicas: &one}},
	}
	createWithStatus(ctx, runtime, func() {
		runtime.Status = v1alpha1.SandboxRuntimeStatus{
			Replicas: 1, ReadyReplicas: 1, Functions: 2, Isolation: "namespaces", Selector: "sandbox.iii.dev/runtime=python",
			Conditions: conditions(v1alpha1.ReadyCondition, v1alpha1.ReadyReason, "one sandbox takes calls"),
		}
	})

	source := "x"
	function := &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Name: "price", Namespace: namespace},
		Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID: "shop::price", RuntimeRef: &v1alpha1.LocalReference{Name: "python"},
			Source: v1alpha1.FunctionSource{Inline: &source},
		},
	}
	createWithStatus(ctx, function, func() {
		function.Status.RuntimeName = "python"
		function.Status.Conditions = conditions(v1alpha1.ReadyCondition, v1alpha1.ReadyReason, "answers on the bus")
	})

	run := &v1alpha1.SandboxRun{
		ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: namespace},
		Spec:       v1alpha1.SandboxRunSpec{Language: v1alpha1.LanguageNode, Source: v1alpha1.RunSource{Inline: &source}},
	}
	createWithStatus(ctx, run, func() {
		exitCode := int32(3)
		run.Status.Phase, run.Status.ExitCode = v1alpha1.RunFailed, &exitCode
		run.Status.Conditions = append(
			conditions(v1alpha1.SandboxRunFailedCondition, v1alpha1.SandboxRunExitCodeReason, "exited with 3"),
			metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse,
				Reason: v1alpha1.SandboxRunExitCodeReason, Message: "the program exited with 3", LastTransitionTime: metav1.Now()})
	})
}

func createWithStatus(ctx SpecContext, object client.Object, report func()) {
	GinkgoHelper()
	Expect(apiClient.Create(ctx, object)).To(Succeed())
	report()
	object.(interface{ SetObservedGeneration(int64) }).SetObservedGeneration(object.GetGeneration())
	Expect(apiClient.Status().Update(ctx, object)).To(Succeed())
}

func conditions(conditionType, reason, message string) []metav1.Condition {
	return []metav1.Condition{{
		Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now(),
	}}
}
