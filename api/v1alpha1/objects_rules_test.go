package v1alpha1_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

var _ = Describe("Objects of every kind", Ordered, ContinueOnFailure, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	everyKind := func(body func(ctx SpecContext, k kind)) {
		GinkgoHelper()
		for _, k := range kinds {
			It(k.name, func(ctx SpecContext) { body(ctx, k) })
		}
	}

	Context("store in spec only what the user wrote", func() {
		everyKind(func(ctx SpecContext, k kind) {
			written := k.object(namespace)
			stored := written.DeepCopy()
			Expect(apiClient.Create(ctx, stored)).To(Succeed())
			Expect(apiClient.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
			Expect(stored.Object["spec"]).To(Equal(written.Object["spec"]))
		})
	})

	// No object has the generation -1: without it kstatus takes an object that nobody
	// has looked at for one that is Current. The numbers are those of the columns and
	// of the scale subresource.
	Context("begin with the status of an object that nobody has looked at", func() {
		everyKind(func(ctx SpecContext, k kind) {
			object := k.object(namespace)
			object.Object["status"] = map[string]any{"observedGeneration": int64(7)}
			Expect(apiClient.Create(ctx, object)).To(Succeed())
			Expect(apiClient.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			fresh := map[string]any{}
			Expect(yaml.Unmarshal([]byte(k.fresh), &fresh)).To(Succeed())
			Expect(object.Object["status"]).To(Equal(jsonNumbers(fresh)))
		})
	})

	It("keep the zeros of a status that mean something", func(ctx SpecContext) {
		zero, no := int32(0), false
		report := func(object client.Object, change func()) {
			GinkgoHelper()
			Expect(apiClient.Create(ctx, object)).To(Succeed())
			base := object.DeepCopyObject().(client.Object)
			change()
			Expect(apiClient.Status().Patch(ctx, object, client.MergeFrom(base))).To(Succeed())
			key := client.ObjectKeyFromObject(object)
			Expect(apiClient.Get(ctx, key, object)).To(Succeed())
		}
		meta := metav1.ObjectMeta{GenerateName: "zero-", Namespace: namespace}
		source := "x"

		sandboxes := &v1alpha1.SandboxRuntime{ObjectMeta: meta, Spec: v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguageNode}}
		report(sandboxes, func() { sandboxes.Status.ObservedGeneration = 1 })
		stored := runtimeKind.object(namespace)
		Expect(apiClient.Get(ctx, client.ObjectKeyFromObject(sandboxes), stored)).To(Succeed())
		Expect(stored.Object["status"]).To(Equal(map[string]any{
			"observedGeneration": int64(1), "replicas": int64(0), "readyReplicas": int64(0), "functions": int64(0)}))

		function := &v1alpha1.SandboxFunction{ObjectMeta: meta, Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID: "shop::zero", Language: v1alpha1.LanguageNode, Source: v1alpha1.FunctionSource{Inline: &source}}}
		report(function, func() {
			function.Status.Triggers = []v1alpha1.FunctionTriggerStatus{{Name: "a", Registered: false}}
		})
		stored = functionKind.object(namespace)
		Expect(apiClient.Get(ctx, client.ObjectKeyFromObject(function), stored)).To(Succeed())
		Expect(stored.Object["status"]).To(HaveKeyWithValue("triggers", []any{map[string]any{"name": "a", "registered": false}}))

		run := &v1alpha1.SandboxRun{ObjectMeta: meta, Spec: v1alpha1.SandboxRunSpec{
			Language: v1alpha1.LanguageNode, Source: v1alpha1.RunSource{Inline: &source}}}
		report(run, func() { run.Status.ExitCode, run.Status.Success = &zero, &no })
		Expect(run.Status.ExitCode).To(HaveValue(BeZero()))
		Expect(run.Status.Success).To(HaveValue(BeFalse()))
	})

	Context("need a spec", func() {
		everyKind(func(ctx SpecContext, k kind) {
			object := k.object(namespace)
			delete(object.Object, "spec")
			expectRefusal(apiClient.Create(ctx, object, client.DryRunAll), "spec", "Required")
			object.Object["spec"] = nil
			expectRefusal(apiClient.Create(ctx, object, client.DryRunAll), "spec")
		})
	})

	DescribeTable("names end where labels, sandbox markers or the API server end them",
		func(ctx SpecContext, k kind, length int, fragments ...string) {
			object := k.object(namespace)
			object.SetName(long(length))
			Expect(apiClient.Create(ctx, object, client.DryRunAll)).To(Succeed())
			object = k.object(namespace)
			object.SetName(long(length + 1))
			expectRefusal(apiClient.Create(ctx, object, client.DryRunAll), append(fragments, "metadata.name")...)
		},
		Entry("SandboxRuntime", runtimeKind, 63, "at most 63 characters"),
		Entry("SandboxFunction", functionKind, 63, "at most 63 characters"),
		Entry("SandboxRun", runKind, 253, "253"),
	)

	for _, name := range []string{"Upper", "under_score", "dot.", "-dash", "a..b", "käse", "a/b", "a b"} {
		Context(fmt.Sprintf("refuse the name %q", name), func() {
			everyKind(func(ctx SpecContext, k kind) {
				object := k.object(namespace)
				object.SetName(name)
				expectRefusal(apiClient.Create(ctx, object, client.DryRunAll), "metadata.name", "RFC 1123")
			})
		})
	}

	DescribeTable("keep text as it was written", func(ctx SpecContext, text string) {
		function := functionKind.object(namespace, setText("functionID", "shop::"+text), setText("description", text), setText("source.inline", text))
		run := runKind.object(namespace, setText("stdin", text), setText("source.inline", text),
			many("args", 1, func(int) any { return text }), many("files", 1, func(int) any { return map[string]any{"path": text, "content": text} }),
			manyNamed("env", 1, "value", text))
		for _, object := range []client.Object{function, run} {
			written := object.DeepCopyObject()
			Expect(apiClient.Create(ctx, object)).To(Succeed())
			Expect(apiClient.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			Expect(specOf(object)).To(Equal(specOf(written)))
		}
	},
		Entry("that is composed", "caf\u00e9"),
		Entry("that is decomposed", "cafe\u0301"),
		Entry("from right to left", "\u202eשלום"),
		Entry("of emoji with joiners", "👩\u200d👩\u200d👧"),
		Entry("beyond the first plane", "𝒳\U0010fffd"),
		Entry("with zero-width spaces and a byte order mark", "a\u200b\ufeffb"),
		Entry("with spaces at its ends", "  a  "),
		Entry("that looks like another type", "null"),
	)

	// No rule can measure a schema, so that these come as far as the store: the client
	// is told so, and nothing is stored. Other parts have bounds together.
	DescribeTable("refuse what is too large as a whole", func(ctx SpecContext, k kind, fragment string, changes ...edit) {
		object := k.object(namespace, changes...)
		object.SetName("large")
		err := apiClient.Create(ctx, object)
		Expect(err).To(MatchError(ContainSubstring(fragment)))
		Expect(apierrors.IsNotFound(apiClient.Get(ctx, client.ObjectKeyFromObject(object), object))).To(BeTrue())
	},
		Entry("for etcd", functionKind, "request is too large", setText("requestSchema.description", long(1800<<10))),
		Entry("for the API server's connection to etcd", functionKind, "message larger than max", setText("metadata.notes", long(2<<20))),
		Entry("for the API server", functionKind, "limit is 3145728", setText("responseSchema.description", long(4<<20))),
	)
})

func specOf(object runtime.Object) any {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	return content["spec"]
}
