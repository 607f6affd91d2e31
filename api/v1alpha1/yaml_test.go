package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// function is a manifest of a function with further lines of the spec.
func function(lines string) string {
	return "apiVersion: sandbox.iii.dev/v1alpha1\nkind: SandboxFunction\nmetadata: {name: f}\nspec:\n" +
		"  functionID: shop::price\n  language: Node\n  source: {inline: x}\n" + indent(lines)
}

// sandboxes is a manifest of a runtime with further lines of the spec.
func sandboxes(lines string) string {
	return "apiVersion: sandbox.iii.dev/v1alpha1\nkind: SandboxRuntime\nmetadata: {name: r}\nspec:\n  language: Node\n" + indent(lines)
}

func indent(lines string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n  ") + "\n"
}

// manifest is a file with that content.
func manifest(content string) string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "manifest.yaml")
	Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	return file
}

// bomb is a document that is small until its aliases are followed.
func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for n := range 8 {
		last, next := string(rune('0'+n)), string(rune('1'+n))
		text += "a" + next + ": &a" + next + " [" + strings.TrimSuffix(strings.Repeat("*a"+last+", ", 9), ", ") + "]\n"
	}
	return text
}

var _ = Describe("YAML through kubectl", Ordered, ContinueOnFailure, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	apply := func(ctx SpecContext, content string, arguments ...string) (string, error) {
		return kubectl(ctx, append([]string{"apply", "--dry-run=server", "--namespace", namespace, "-f", manifest(content)}, arguments...)...)
	}

	DescribeTable("means what it says", func(ctx SpecContext, content, path, want string) {
		Expect(apply(ctx, content, "--validate=strict", "-o", "jsonpath="+path)).To(Equal(want))
	},
		Entry("anchors and aliases", sandboxes("env:\n- {name: A, value: &v text}\n- {name: B, value: *v}"), "{.spec.env[1].value}", "text"),
		Entry("merge keys", sandboxes("env:\n- &a {name: A, value: text}\n- {<<: *a, name: B}"), "{.spec.env[1].value}", "text"),
		Entry("yes", function("suspend: yes"), "{.spec.suspend}", "true"),
		Entry("on", function("suspend: on"), "{.spec.suspend}", "true"),
		Entry("no", function("suspend: no"), "{.spec.suspend}", "false"),
		Entry("an exponent", function("timeoutMilliseconds: 1e3"), "{.spec.timeoutMilliseconds}", "1000"),
		Entry("a whole fraction", function("timeoutMilliseconds: 1000.0"), "{.spec.timeoutMilliseconds}", "1000"),
		Entry("an underscore", function("timeoutMilliseconds: 1_000"), "{.spec.timeoutMilliseconds}", "1000"),
		Entry("hexadecimal", function("timeoutMilliseconds: 0x10"), "{.spec.timeoutMilliseconds}", "16"),
		Entry("octal", function("timeoutMilliseconds: 010"), "{.spec.timeoutMilliseconds}", "8"),
		Entry("a quantity as a number", sandboxes("resources: {memory: 1e9}"), "{.spec.resources.memory}", "1000000000"),
		Entry("a mode in quotes", sandboxes("files: [{path: /a, content: x, mode: '0755'}]"), "{.spec.files[0].mode}", "0755"),
		Entry("a country in quotes", sandboxes("env: [{name: COUNTRY, value: 'no'}]"), "{.spec.env[0].value}", "no"),
		Entry("a date that is text", function("description: 2024-01-01"), "{.spec.description}", "2024-01-01"),
		Entry("null and nothing", function("description: null\nhandler:\ntriggers: ~"), "{.spec.description}{.spec.handler}{.spec.triggers}", ""),
		Entry("a byte order mark", "\ufeff"+function("description: a"), "{.spec.description}", "a"),
		Entry("Windows line ends", strings.ReplaceAll(function("description: |\n  a\n  b"), "\n", "\r\n"), "{.spec.description}", "a\nb\n"),
		Entry("a block that is cut", function("description: |-\n  a\n   b"), "{.spec.description}", "a\n b"),
		Entry("a block that is folded", function("description: >\n  a\n  b"), "{.spec.description}", "a b\n"),
		Entry("escapes", function(`description: "\u00e9\x41\u202e"`), "{.spec.description}", "éA\u202e"),
		Entry("a surrogate pair of JSON", strings.ReplaceAll(`{"apiVersion":"sandbox.iii.dev/v1alpha1","kind":"SandboxFunction","metadata":{"name":"f"},"spec":
			{"functionID":"shop::price","language":"Node","source":{"inline":"x"},"description":"\ud83c\udf89"}}`, "\n", ""), "{.spec.description}", "🎉"),
		// kubectl sends only the last of them.
		Entry("a key twice", function("handler: a\nhandler: b"), "{.spec.handler}", "b"),
		Entry("half a surrogate pair of JSON", `{"apiVersion":"sandbox.iii.dev/v1alpha1","kind":"SandboxFunction","metadata":{"name":"f"},`+
			`"spec":{"functionID":"shop::price","language":"Node","source":{"inline":"x"},"description":"a\ud83cb"}}`, "{.spec.description}", "a\ufffdb"),
		Entry("bytes that are no UTF-8", function("description: \"a\xffb\""), "{.spec.description}", "a\ufffdb"),
		Entry("a tag that makes text of a number", sandboxes("env: [{name: PORT, value: !!str 8080}]"), "{.spec.env[0].value}", "8080"),
		Entry("a tag of text that is encoded", function("description: !!binary aGVsbG8="), "{.spec.description}", "hello"),
		Entry("a number to the base of sixty that is text", function("description: 12:30:45"), "{.spec.description}", "12:30:45"),
		Entry("separators of documents inside of a block", function("description: |\n  a\n  ---\n  b"), "{.spec.description}", "a\n---\nb\n"),
		Entry("a template that nobody filled in, in quotes", function(`description: "{{ .Values.text }}"`), "{.spec.description}", "{{ .Values.text }}"),
		Entry("a merge key before what overrides it", sandboxes("env:\n- &a {name: A, value: first}\n- {<<: *a, name: B, value: second}"),
			"{.spec.env[1].name}{.spec.env[1].value}", "Bsecond"),
		Entry("a key in quotes", function(`"description": a`), "{.spec.description}", "a"),
		Entry("a list that begins where its key does", "apiVersion: sandbox.iii.dev/v1alpha1\nkind: SandboxRuntime\nmetadata: {name: r}\nspec:\n  language: Node\n  setup:\n  - make\n",
			"{.spec.setup[0]}", "make"),
		Entry("comments and empty documents", "# first\n---\n---\n"+function("description: a # b")+"---\n# last\n", "{.spec.description}", "a"),
	)

	DescribeTable("is refused with the field", func(ctx SpecContext, content string, fragments ...string) {
		_, err := apply(ctx, content, "--validate=strict")
		Expect(err).To(HaveOccurred())
		for _, fragment := range fragments {
			Expect(err.Error()).To(ContainSubstring(fragment))
		}
	},
		Entry("yes as text", function("description: yes"), "spec.description", `must be of type string: "boolean"`),
		Entry("Norway", sandboxes("env: [{name: COUNTRY, value: no}]"), "spec.env[0].value", `must be of type string: "boolean"`),
		Entry("a variable named on", sandboxes("env: [{name: on, value: x}]"), "spec.env[0].name", `must be of type string: "boolean"`),
		Entry("a number as text", sandboxes("env: [{name: PORT, value: 8080}]"), "spec.env[0].value", `must be of type string: "integer"`),
		Entry("a version as text", sandboxes("image: 3.10"), "spec.image", `must be of type string: "number"`),
		Entry("a mode without quotes", sandboxes("files: [{path: /a, content: x, mode: 0644}]"), "spec.files[0].mode", `must be of type string: "integer"`),
		Entry("a mode of YAML 1.2", sandboxes("files: [{path: /a, content: x, mode: 0o644}]"), "spec.files[0].mode"),
		Entry("a switch in quotes", function(`suspend: "true"`), "spec.suspend", `must be of type boolean: "string"`),
		Entry("a number in quotes", function(`timeoutMilliseconds: "1000"`), "spec.timeoutMilliseconds", `must be of type integer: "string"`),
		Entry("a fraction", function("timeoutMilliseconds: 10.5"), "spec.timeoutMilliseconds", "must be of type int32"),
		Entry("a number beyond 32 bits", function("timeoutMilliseconds: 1e10"), "spec.timeoutMilliseconds"),
		Entry("infinity", function("timeoutMilliseconds: .inf"), "unsupported value"),
		Entry("one item instead of a list", sandboxes("setup: make"), "spec.setup", `must be of type array: "string"`),
		Entry("a map instead of a list", sandboxes("env: {A: x}"), `unknown field "spec.env.A"`),
		Entry("a null item", sandboxes("setup: [make, ]\nenv: [null]"), "spec.env[0]", `must be of type object: "null"`),
		Entry("an unknown field", function("handlr: a"), `unknown field "spec.handlr"`),
		Entry("an unknown field below", sandboxes("resources: {memory: 1Gi, disk: 1Gi}"), `unknown field "spec.resources.disk"`),
		Entry("a field in another case", function("timeoutmilliseconds: 5"), `unknown field "spec.timeoutmilliseconds"`),
		Entry("a field of another kind", sandboxes("handler: a"), `unknown field "spec.handler"`),
		Entry("a field beside spec", function("handler: a")+"handler: a\n", `unknown field "handler"`),
		Entry("a number to the base of sixty", function("timeoutMilliseconds: 1:30"), "spec.timeoutMilliseconds", `must be of type integer: "string"`),
		Entry("no number at all", function("timeoutMilliseconds: .nan"), "unsupported value"),
		Entry("a time with a unit", sandboxes("idle: {timeoutSeconds: 5m}"), "spec.idle.timeoutSeconds", `must be of type integer: "string"`),
		Entry("a template that nobody filled in", function("timeoutMilliseconds: {{ .Values.timeout }}"), "yaml"),
		Entry("a variable that nobody replaced", sandboxes("replicas: ${REPLICAS}"), "spec.replicas", `must be of type integer: "string"`),
		Entry("off as text", sandboxes("env: [{name: FEATURE, value: off}]"), "spec.env[0].value", `must be of type string: "boolean"`),
		Entry("nothing as a value", sandboxes("env: [{name: A, value: ~}]"), "spec.env[0]", "exactly one of value and valueFrom"),
		Entry("an alias that makes a name appear twice", sandboxes("env:\n- &a {name: A, value: x}\n- *a"), "spec.env[1]", "Duplicate value"),
		// To kubectl the later one wins, whichever it is.
		Entry("a merge key behind what it should not override", sandboxes("env:\n- &a {name: A, value: x}\n- {name: B, <<: *a}"), "spec.env[1]", "Duplicate value"),
		Entry("a key under the wrong one", function("source:\n  inline: x\n  handler: h"), `unknown field "spec.source.handler"`),
		Entry("a list of names instead of one", sandboxes("image: [node]"), "spec.image", `must be of type string: "array"`),
		Entry("a map instead of text", function("source: {inline: {a: b}}"), `unknown field "spec.source.inline.a"`),
		Entry("a text that does not end", function(`description: "a`), "yaml"),
		Entry("a colon too many", function("description: a: b"), "mapping values are not allowed"),
		Entry("an at sign as the beginning", sandboxes("packages: [@scope/name]"), "cannot start any token"),
		Entry("a status beside a bad spec", function("suspend: 1")+"status: {observedGeneration: 5}\n", "spec.suspend"),
		Entry("a tab as indentation", function("source:\n\tinline: x"), "found character that cannot start any token"),
		Entry("a NUL character", function("description: a\x00b"), "control characters are not allowed"),
		Entry("an alias to nothing", function("description: *a"), "unknown anchor 'a'"),
		Entry("a bracket that stays open", function("triggers: [{name: a"), "did not find expected"),
		Entry("a bomb of aliases", function("metadata:\n  "+strings.ReplaceAll(bomb(), "\n", "\n  ")), "excessive aliasing"),
		Entry("another version", strings.Replace(function(""), "v1alpha1", "v1", 1), "no matches for kind"),
		Entry("another kind", strings.Replace(function(""), "SandboxFunction", "SandboxFunctions", 1), "no matches for kind"),
		Entry("no kind", strings.Replace(function(""), "kind: SandboxFunction\n", "", 1), "kind"),
		Entry("no name", strings.Replace(function(""), "{name: f}", "{}", 1), "name"),
		Entry("no documents", "# nothing\n", "no objects passed to apply"),
	)

	DescribeTable("is refused with the field by an apply on the server's side too", func(ctx SpecContext, content string, fragments ...string) {
		_, err := apply(ctx, content, "--server-side")
		Expect(err).To(HaveOccurred())
		for _, fragment := range fragments {
			Expect(err.Error()).To(ContainSubstring(fragment))
		}
	},
		Entry("an unknown field", function("handlr: a"), "spec.handlr", "field not declared in schema"),
		Entry("another type", function(`suspend: "true"`), "spec.suspend", "expected boolean"),
		Entry("an item twice", sandboxes("env: [{name: A, value: a}, {name: A, value: b}]"), "spec.env", "duplicate entries", `name="A"`),
		Entry("an item without its key", sandboxes("env: [{value: a}]"), "spec.env", "name"),
		Entry("a rule that is broken", sandboxes("busAccess: Enabled"), "spec.busAccess", "needs network: Enabled"),
		Entry("Norway", sandboxes("env: [{name: COUNTRY, value: no}]"), `spec.env[name="COUNTRY"].value`, "expected string"),
	)

	It("takes the good documents of a file and names the bad one", func(ctx SpecContext) {
		bad := strings.Replace(function("suspend: 1"), "{name: f}", "{name: bad}", 1)
		output, err := kubectl(ctx, "apply", "--namespace", namespace, "-f",
			manifest(function("")+"---\n"+bad+"---\n"+sandboxes("")))
		Expect(err).To(MatchError(And(ContainSubstring("spec.suspend"), ContainSubstring(`"bad"`))))
		Expect(output).To(And(ContainSubstring("/f created"), ContainSubstring("/r created")))
	})

	It("warns of what it drops when it does not validate strictly", func(ctx SpecContext) {
		output, err := apply(ctx, function("handlr: a"), "--validate=warn", "-o", "jsonpath={.spec.handlr}")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.TrimSpace(output)).To(Equal(`Warning: unknown field "spec.handlr"`))
	})

	It("drops a status", func(ctx SpecContext) {
		Expect(apply(ctx, function("")+"status: {observedGeneration: 5}\n", "--validate=strict", "-o", "jsonpath={.status.observedGeneration}")).To(Equal("-1"))
	})

	It("is too large for the annotation of apply, not for the server side", func(ctx SpecContext) {
		large := strings.Replace(function("description: "+long(4096)), "{inline: x}", `{inline: "`+strings.Repeat(`\x01`, 50_000)+`"}`, 1)
		_, err := apply(ctx, large)
		Expect(err).To(MatchError(And(ContainSubstring("metadata.annotations"), ContainSubstring("262144"))))
		Expect(apply(ctx, large, "--server-side")).To(ContainSubstring("serverside-applied"))
	})
})
