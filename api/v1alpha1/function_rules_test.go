package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// id is a function id of exactly the given number of bytes.
func id(length int) string { return "shop::" + strings.Repeat("p", length-len("shop::")) }

var _ = Describe("SandboxFunction rules", Ordered, ContinueOnFailure, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	// contracts/code-runner.md §6
	DescribeTable("function ids that are accepted", func(ctx SpecContext, functionID string) {
		Expect(functionKind.tryCreate(ctx, namespace, setText("functionID", functionID))).To(Succeed())
	},
		Entry("the shortest", "a::b"),
		Entry("every character of a prefix", "-a_0.z::price"),
		Entry("a prefix that begins with an underscore", "_shop::price"),
		Entry("more separators in the name", "shop::eu::price"),
		Entry("a name that begins with a colon", "shop:::price"),
		Entry("spaces and other scripts in the name", "shop::prix élevé 価格"),
		Entry("a reserved word after the prefix", "shop::engine::price"),
		Entry("a prefix that only begins with a reserved word", "engine2::price"),
		Entry("a prefix of 64 characters", strings.Repeat("p", 64)+"::x"),
		Entry("256 bytes", id(256)),
	)

	DescribeTable("function ids that are refused", func(ctx SpecContext, functionID string, fragments []string) {
		err := functionKind.tryCreate(ctx, namespace, setText("functionID", functionID))
		expectRefusal(err, append(fragments, "spec.functionID")...)
	},
		Entry("no separator", "price", says("should match")),
		Entry("one colon", "shop:price", says("should match")),
		Entry("no prefix", "::price", says("should match")),
		Entry("no name", "shop::", says("should match")),
		Entry("upper case in the prefix", "Shop::price", says("should match")),
		Entry("a space in the prefix", "my shop::price", says("should match")),
		Entry("a colon in the prefix", "my:shop::price", says("should match")),
		Entry("a prefix that begins with a dot", ".shop::price", says("should match")),
		Entry("two dots in the prefix", "my..shop::price", says("no two dots in a row")),
		Entry("a prefix of 65 characters", strings.Repeat("p", 65)+"::x", says("at most 64 characters")),
		Entry("257 bytes", id(257), says("256")),
		Entry("257 bytes in 132 characters", "shop::p"+strings.Repeat("é", 125), says("at most 256 bytes")),
		Entry("the prefix of the engine", "engine::price", says("another one")),
		Entry("a reserved prefix before more separators", "engine::a::b", says("another one")),
		Entry("the prefix of the sandbox daemon", "sandbox::create", says("another one")),
		Entry("the prefix of the operator", "sandbox-code-runner::run", says("another one")),
		Entry("the prefix of the state store", "state::get", says("another one")),
		Entry("the prefix of the streams", "stream::get", says("another one")),
		Entry("the prefix of the queues", "iii::price", says("another one")),
	)

	DescribeTable("specs that are accepted", func(ctx SpecContext, changes ...edit) {
		Expect(functionKind.tryCreate(ctx, namespace, changes...)).To(Succeed())
	},
		Entry("the minimal one"),
		Entry("a runtimeRef instead of a language", unset("language"), set("runtimeRef.name", "python-3.with-dots")),
		Entry("a source from a ConfigMap", set("source", `{configMapKeyRef: {name: code, key: price.mjs}}`)),
		Entry("131072 bytes of source", setText("source.inline", strings.Repeat("x", v1alpha1.MaxInlineSourceBytes))),
		Entry("131072 bytes of multi-byte source", setText("source.inline", strings.Repeat("é", v1alpha1.MaxInlineSourceBytes/2))),
		Entry("the longest timeout", set("timeoutMilliseconds", "290000")),
		Entry("schemas with any keyword", set("requestSchema", `{type: object, properties: {qty: {type: integer}}, x-any: [1]}`)),
		Entry("metadata of any shape", set("metadata", `{team: shop, nested: {deep: [true, null]}}`)),
		Entry("a trigger of a type that nobody knows", set("triggers", `[{name: a, type: "my::type", config: {any: [1, {b: c}]}, metadata: {x: 1}}]`)),
		Entry("a handler with a dollar sign", set("handler", "$handle_1")),
		Entry("4096 characters of description", setText("description", strings.Repeat("d", 4096))),
	)

	DescribeTable("specs that are refused", func(ctx SpecContext, fragments []string, changes ...edit) {
		expectRefusal(functionKind.tryCreate(ctx, namespace, changes...), fragments...)
	},
		Entry("no functionID", says("spec.functionID", "Required"), unset("functionID")),
		Entry("no source", says("spec.source", "Required"), unset("source")),
		Entry("neither language nor runtimeRef", says("exactly one of language", "runtimeRef"), unset("language")),
		Entry("both language and runtimeRef", says("exactly one of language", "runtimeRef"), set("runtimeRef.name", "r")),
		Entry("an unknown language", says("spec.language", `"Node", "Python"`), set("language", "Ruby")),
		Entry("a language in lower case", says("spec.language", `"Node", "Python"`), set("language", "node")),
		Entry("a runtimeRef that is no object name", says("spec.runtimeRef.name"), unset("language"), set("runtimeRef.name", "Not_A_Name")),
		Entry("an empty source", says("spec.source", "exactly one of inline and configMapKeyRef"), set("source", "{}")),
		Entry("two sources", says("spec.source", "exactly one of inline and configMapKeyRef"), set("source.configMapKeyRef", "{name: a, key: b}")),
		Entry("an empty inline source", says("spec.source.inline", "at least 1"), setText("source.inline", "")),
		Entry("131073 bytes of source", says("spec.source.inline", "131072"), setText("source.inline", strings.Repeat("x", v1alpha1.MaxInlineSourceBytes+1))),
		Entry("131073 bytes of multi-byte source", says("spec.source.inline", "131072 bytes", "ConfigMap"),
			setText("source.inline", "x"+strings.Repeat("é", v1alpha1.MaxInlineSourceBytes/2))),
		Entry("a ConfigMap key with a slash", says("spec.source.configMapKeyRef.key"), set("source", `{configMapKeyRef: {name: a, key: "a/b"}}`)),
		Entry("a ConfigMap without a key", says("spec.source.configMapKeyRef.key", "Required"), set("source", `{configMapKeyRef: {name: a}}`)),
		Entry("a ConfigMap without a name", says("spec.source.configMapKeyRef.name"), set("source", `{configMapKeyRef: {name: "", key: k}}`)),
		Entry("a handler that is no identifier", says("spec.handler"), set("handler", "a.b")),
		Entry("a handler of 129 characters", says("spec.handler", "128"), setText("handler", strings.Repeat("h", 129))),
		Entry("4097 characters of description", says("spec.description", "4096"), setText("description", strings.Repeat("d", 4097))),
		Entry("a timeout of zero", says("spec.timeoutMilliseconds", "greater than or equal to 1"), set("timeoutMilliseconds", "0")),
		Entry("a timeout beyond 290 seconds", says("spec.timeoutMilliseconds", "290000"), set("timeoutMilliseconds", "290001")),
		Entry("a request schema that is no object", says("spec.requestSchema", "object"), set("requestSchema", "true")),
		Entry("a response schema that is no object", says("spec.responseSchema", "object"), set("responseSchema", "[1]")),
		Entry("metadata that is no object", says("spec.metadata", "object"), set("metadata", "text")),
		Entry("a trigger without a name", says("spec.triggers[0].name"), set("triggers", "[{type: http}]")),
		Entry("a trigger without a type", says("spec.triggers[0].type", "Required"), set("triggers", "[{name: a}]")),
		Entry("a trigger with an empty type", says("spec.triggers[0].type"), set("triggers", `[{name: a, type: ""}]`)),
		Entry("a trigger with upper case in its name", says("spec.triggers[0].name"), set("triggers", "[{name: A, type: http}]")),
		Entry("a trigger whose config is no object", says("spec.triggers[0].config", "object"), set("triggers", "[{name: a, type: http, config: [1]}]")),
		Entry("a trigger whose metadata is no object", says("spec.triggers[0].metadata", "object"), set("triggers", "[{name: a, type: http, metadata: 1}]")),
		Entry("two triggers of one name", says("spec.triggers[1]", "Duplicate"), set("triggers", "[{name: a, type: http}, {name: a, type: cron}]")),
		Entry("17 triggers", says("spec.triggers", "16"), manyNamed("triggers", 17, "type", "http")),
	)

	withRef := edits(unset("language"), set("runtimeRef.name", "one"))

	DescribeTable("updates that are accepted", func(ctx SpecContext, before, change []edit) {
		Expect(functionKind.tryUpdate(ctx, namespace, before, change)).To(Succeed())
	},
		Entry("another source", edits(), edits(set("source.inline", "changed"))),
		Entry("a source that moves to a ConfigMap", edits(), edits(set("source", "{configMapKeyRef: {name: a, key: b}}"))),
		Entry("suspend on", edits(), edits(set("suspend", "true"))),
		Entry("suspend off again", edits(set("suspend", "true")), edits(unset("suspend"))),
		Entry("another handler, timeout and description", edits(), edits(set("handler", "h"), set("timeoutMilliseconds", "5"), set("description", "d"))),
		Entry("a trigger more", edits(), edits(set("triggers", "[{name: a, type: http}]"))),
		Entry("anything but the ref with a runtimeRef", withRef, edits(set("source.inline", "changed"))),
	)

	DescribeTable("updates that are refused", func(ctx SpecContext, before, change []edit, fragments []string) {
		expectRefusal(functionKind.tryUpdate(ctx, namespace, before, change), fragments...)
	},
		Entry("another functionID", edits(), edits(set("functionID", "shop::tax")), says("spec.functionID", "make a new one")),
		Entry("no functionID", edits(), edits(unset("functionID")), says("spec.functionID", "Required")),
		Entry("another language", edits(), edits(set("language", "Python")), says("spec.language", "make a new one")),
		Entry("no language", edits(), edits(unset("language")), says("spec", "language")),
		Entry("a move to a runtimeRef", edits(), withRef, says("cannot move", "make a new one")),
		Entry("a move to a language", withRef, edits(unset("runtimeRef"), set("language", "Node")), says("cannot move", "make a new one")),
		Entry("another runtimeRef", withRef, edits(set("runtimeRef.name", "two")), says("spec.runtimeRef", "make a new one")),
		Entry("a spec that becomes invalid", edits(), edits(set("timeoutMilliseconds", "0")), says("spec.timeoutMilliseconds")),
	)
})
