package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

var _ = Describe("SandboxRun rules", Ordered, ContinueOnFailure, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	digest := strings.Repeat("0f", 32)

	DescribeTable("specs that are accepted", func(ctx SpecContext, changes ...edit) {
		Expect(runKind.tryCreate(ctx, namespace, changes...)).To(Succeed())
	},
		Entry("the minimal one"),
		Entry("a runtimeRef without a language", unset("language"), set("runtimeRef.name", "r")),
		Entry("a runtimeRef with its language", set("runtimeRef.name", "r")),
		Entry("a runtime of its own", set("runtime", "{network: Enabled, busAccess: Enabled, resources: {cpu: 2, memory: 256Mi}}")),
		Entry("a source from a ConfigMap", set("source", "{configMapKeyRef: {name: a, key: b.py}}")),
		Entry("a transient source", set("source", "{transient: {sha256: "+digest+"}}")),
		Entry("131072 bytes of multi-byte source", setText("source.inline", strings.Repeat("é", v1alpha1.MaxInlineSourceBytes/2))),
		Entry("input, arguments and environment", set("stdin", "in"), set("args", `["", "-x"]`), set("env", `[{name: A, value: ""}]`)),
		Entry("a ttl of zero", set("ttlSecondsAfterFinished", "0")),
		Entry("a run that is born cancelled", set("cancel", "true")),
	)

	DescribeTable("specs that are refused", func(ctx SpecContext, fragments []string, changes ...edit) {
		expectRefusal(runKind.tryCreate(ctx, namespace, changes...), fragments...)
	},
		Entry("neither language nor runtimeRef", says("spec", "set language, or runtimeRef"), unset("language")),
		Entry("a runtime of its own without a language", says("spec", "set language, or runtimeRef"), unset("language"), set("runtime", "{}")),
		Entry("both runtime and runtimeRef", says("at most one of runtime and runtimeRef"), set("runtime", "{}"), set("runtimeRef.name", "r")),
		Entry("an unknown language", says("spec.language", `"Node", "Python"`), set("language", "Go")),
		Entry("no source", says("spec.source", "Required"), unset("source")),
		Entry("an empty source", says("spec.source", "exactly one of inline, configMapKeyRef and transient"), set("source", "{}")),
		Entry("two sources", says("spec.source", "exactly one of"), set("source.transient.sha256", digest)),
		Entry("an empty inline source", says("spec.source.inline", "at least 1"), setText("source.inline", "")),
		Entry("131073 bytes of multi-byte source", says("spec.source.inline", "131072 bytes", "ConfigMap"),
			setText("source.inline", "x"+strings.Repeat("é", v1alpha1.MaxInlineSourceBytes/2))),
		Entry("a digest in upper case", says("spec.source.transient.sha256"), set("source", "{transient: {sha256: "+strings.ToUpper(digest)+"}}")),
		Entry("a digest that is too short", says("spec.source.transient.sha256"), set("source", "{transient: {sha256: abcd}}")),
		Entry("a timeout of zero", says("spec.timeoutMilliseconds"), set("timeoutMilliseconds", "0")),
		Entry("a timeout beyond 290 seconds", says("spec.timeoutMilliseconds", "290000"), set("timeoutMilliseconds", "290001")),
		Entry("a negative ttl", says("spec.ttlSecondsAfterFinished"), set("ttlSecondsAfterFinished", "-1")),
		Entry("a ttl of more than a year", says("spec.ttlSecondsAfterFinished", "31536000"), set("ttlSecondsAfterFinished", "31536001")),
		Entry("an input of 131073 characters", says("spec.stdin", "131072"), setText("stdin", strings.Repeat("i", 131073))),
		Entry("65 arguments", says("spec.args", "64"), set("args", "["+strings.Repeat("a,", 64)+"a]")),
		Entry("an argument of 4097 characters", says("spec.args[0]", "4096"), set("args", "["+strings.Repeat("a", 4097)+"]")),
		Entry("bus access without a network in a runtime of its own", says("spec.runtime.busAccess", "needs network: Enabled"), set("runtime.busAccess", "Enabled")),
		Entry("a variable of the operator", says("spec.env[0].name", "III_"), set("env", "[{name: III_URL, value: x}]")),
	)

	whole := edits(
		set("runtime", "{network: Enabled, resources: {cpu: 1}}"), set("stdin", "in"), set("args", "[a]"),
		set("env", "[{name: A, value: a}]"), set("timeoutMilliseconds", "1000"), set("ttlSecondsAfterFinished", "60"))

	// Every rule runs over every byte here: the API server stops rules that cost
	// too much when they run, not only when the CRD is installed.
	largest := edits(
		setText("source.inline", strings.Repeat("s", v1alpha1.MaxInlineSourceBytes)),
		setText("stdin", strings.Repeat("i", 131072)),
		set("args", "["+strings.Repeat(strings.Repeat("a", 4096)+",", 63)+"a]"),
		manyNamed("env", 64, "value", strings.Repeat("v", 8192)))

	DescribeTable("updates that are accepted", func(ctx SpecContext, before, change []edit) {
		Expect(runKind.tryUpdate(ctx, namespace, before, change)).To(Succeed())
	},
		Entry("none", whole, edits()),
		Entry("cancel of the largest run", largest, edits(set("cancel", "true"))),
		Entry("cancel", whole, edits(set("cancel", "true"))),
		Entry("cancel that is written as false first", edits(set("cancel", "false")), edits(set("cancel", "true"))),
	)

	DescribeTable("updates that are refused", func(ctx SpecContext, before, change []edit, fragments []string) {
		expectRefusal(runKind.tryUpdate(ctx, namespace, before, change), fragments...)
	},
		Entry("cancel taken back", edits(set("cancel", "true")), edits(set("cancel", "false")), says("spec.cancel", "stays cancelled")),
		Entry("cancel unset", edits(set("cancel", "true")), edits(unset("cancel")), says("spec.cancel", "stays cancelled")),
		Entry("another language", edits(), edits(set("language", "Node")), says("spec.language", "create a new one")),
		Entry("another source", edits(), edits(set("source.inline", "changed")), says("spec.source", "create a new one")),
		Entry("a source of another sort", edits(), edits(set("source", "{configMapKeyRef: {name: a, key: b}}")), says("spec.source", "create a new one")),
		Entry("another runtime", whole, edits(set("runtime.network", "Disabled")), says("spec.runtime", "create a new one")),
		Entry("other resources", whole, edits(set("runtime.resources.cpu", "2")), says("spec.runtime", "create a new one")),
		Entry("another input", whole, edits(set("stdin", "other")), says("spec.stdin", "create a new one")),
		Entry("other arguments", whole, edits(set("args", "[b]")), says("spec.args", "create a new one")),
		Entry("another environment", whole, edits(set("env", "[{name: A, value: b}]")), says("spec.env", "create a new one")),
		Entry("another timeout", whole, edits(set("timeoutMilliseconds", "2000")), says("spec.timeoutMilliseconds", "create a new one")),
		Entry("another ttl", whole, edits(set("ttlSecondsAfterFinished", "61")), says("spec.ttlSecondsAfterFinished", "create a new one")),
		Entry("a runtimeRef set anew", edits(), edits(set("runtimeRef.name", "r")), says("create a new one")),
		Entry("a language unset", edits(set("runtimeRef.name", "r")), edits(unset("language")), says("create a new one")),
		Entry("a runtime unset", whole, edits(unset("runtime")), says("create a new one")),
		Entry("an input set anew", edits(), edits(set("stdin", "in")), says("create a new one")),
		Entry("an input unset", whole, edits(unset("stdin")), says("create a new one")),
		Entry("arguments set anew", edits(), edits(set("args", "[a]")), says("create a new one")),
		Entry("arguments unset", whole, edits(unset("args")), says("create a new one")),
		Entry("an environment set anew", edits(), edits(set("env", "[{name: A, value: a}]")), says("create a new one")),
		Entry("an environment unset", whole, edits(unset("env")), says("create a new one")),
		Entry("a timeout set anew", edits(), edits(set("timeoutMilliseconds", "1")), says("create a new one")),
		Entry("a timeout unset", whole, edits(unset("timeoutMilliseconds")), says("create a new one")),
		Entry("a ttl set anew", edits(), edits(set("ttlSecondsAfterFinished", "1")), says("create a new one")),
		Entry("a ttl unset", whole, edits(unset("ttlSecondsAfterFinished")), says("create a new one")),
	)
})
