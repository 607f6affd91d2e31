package v1alpha1_test

import (
	"strings"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// whole is a run with everything that it may have.
var whole = edits(
	set("runtime", "{network: Enabled, resources: {cpu: 1}}"), set("stdin", "in"), set("args", "[a]"),
	set("env", "[{name: A, value: a}]"), set("files", "[{path: x, content: a}]"),
	set("timeoutMilliseconds", "1000"), set("ttlSecondsAfterFinished", "60"))

// Every rule runs over every byte of the largest run: the API server stops rules
// that cost too much when they run, not only when the CRD is installed.
var largest = edits(
	setText("source.inline", long(v1alpha1.MaxInlineSourceBytes)), setText("stdin", long(131072)),
	many("args", 64, func(int) any { return long(4096) }), manyNamed("env", 64, "value", long(8192)),
	many("files", 64, func(n int) any { return map[string]any{"path": long(n + 1), "content": ""} }))

// runRows are about what only a SandboxRun has, and its changes.
func runRows() []row {
	return of(runKind,
		takes("the minimal one"),
		takes("a runtimeRef without a language", unset("language"), set("runtimeRef.name", "r")),
		takes("a runtimeRef with its language", set("runtimeRef.name", "r")),
		takes("a runtime of its own", set("runtime", "{network: Enabled, busAccess: Enabled, resources: {cpu: 2, memory: 256Mi}}")),
		takes("input, arguments and environment", set("stdin", "in"), set("args", `["", "-x"]`), set("env", `[{name: A, value: ""}]`)),
		takes("a ttl of zero", set("ttlSecondsAfterFinished", "0")),
		takes("a run that is born cancelled", set("cancel", "true")),
		refuses("neither language nor runtimeRef", says("spec", "set language, or runtimeRef"), unset("language")),
		refuses("a runtime of its own without a language", says("spec", "set language, or runtimeRef"), unset("language"), set("runtime", "{}")),
		refuses("both runtime and runtimeRef", says("at most one of runtime and runtimeRef"), set("runtime", "{}"), set("runtimeRef.name", "r")),
		refuses("an unknown language", says("spec.language", `"Node", "Python"`), set("language", "Go")),
		refuses("a timeout of zero", says("spec.timeoutMilliseconds"), set("timeoutMilliseconds", "0")),
		refuses("a timeout beyond 290 seconds", says("spec.timeoutMilliseconds", "290000"), set("timeoutMilliseconds", "290001")),
		refuses("a negative ttl", says("spec.ttlSecondsAfterFinished"), set("ttlSecondsAfterFinished", "-1")),
		refuses("a ttl of more than a year", says("spec.ttlSecondsAfterFinished", "31536000"), set("ttlSecondsAfterFinished", "31536001")),
		refuses("an input of 131073 characters", says("spec.stdin", "131072"), setText("stdin", long(131073))),
		refuses("65 arguments", says("spec.args", "64"), set("args", "["+strings.Repeat("a,", 64)+"a]")),
		refuses("an argument of 4097 characters", says("spec.args[0]", "4096"), set("args", "["+strings.Repeat("a", 4097)+"]")),
		refuses("bus access without a network in a runtime of its own", says("spec.runtime.busAccess", "needs network: Enabled"), set("runtime.busAccess", "Enabled")),
		takesUpdate("none", whole, edits()),
		takesUpdate("cancel of the largest run", largest, edits(set("cancel", "true"))),
		takesUpdate("cancel", whole, edits(set("cancel", "true"))),
		takesUpdate("cancel that is written as false first", edits(set("cancel", "false")), edits(set("cancel", "true"))),
		refusesUpdate("cancel taken back", edits(set("cancel", "true")), edits(set("cancel", "false")), says("spec.cancel", "stays cancelled")),
		refusesUpdate("cancel unset", edits(set("cancel", "true")), edits(unset("cancel")), says("spec.cancel", "stays cancelled")),
		refusesUpdate("another language", edits(), edits(set("language", "Node")), says("spec.language", "create a new one")),
		refusesUpdate("another source", edits(), edits(set("source.inline", "changed")), says("spec.source", "create a new one")),
		refusesUpdate("a source of another sort", edits(), edits(set("source", "{configMapKeyRef: {name: a, key: b}}")), says("spec.source", "create a new one")),
		refusesUpdate("another runtime", whole, edits(set("runtime.network", "Disabled")), says("spec.runtime", "create a new one")),
		refusesUpdate("other resources", whole, edits(set("runtime.resources.cpu", "2")), says("spec.runtime", "create a new one")),
		refusesUpdate("another input", whole, edits(set("stdin", "other")), says("spec.stdin", "create a new one")),
		refusesUpdate("other arguments", whole, edits(set("args", "[b]")), says("spec.args", "create a new one")),
		refusesUpdate("another environment", whole, edits(set("env", "[{name: A, value: b}]")), says("spec.env", "create a new one")),
		refusesUpdate("other files", whole, edits(set("files", "[{path: x, content: b}]")), says("spec.files", "create a new one")),
		refusesUpdate("another mode of a file", whole, edits(set("files", `[{path: x, content: a, mode: "0600"}]`)), says("spec.files", "create a new one")),
		refusesUpdate("files set anew", edits(), edits(set("files", "[{path: x, content: a}]")), says("spec.files", "create a new one")),
		refusesUpdate("files unset", whole, edits(unset("files")), says("spec.files", "create a new one")),
		refusesUpdate("another timeout", whole, edits(set("timeoutMilliseconds", "2000")), says("spec.timeoutMilliseconds", "create a new one")),
		refusesUpdate("another ttl", whole, edits(set("ttlSecondsAfterFinished", "61")), says("spec.ttlSecondsAfterFinished", "create a new one")),
		refusesUpdate("a runtimeRef set anew", edits(), edits(set("runtimeRef.name", "r")), says("spec.runtimeRef", "create a new one")),
		refusesUpdate("a language unset", edits(set("runtimeRef.name", "r")), edits(unset("language")), says("spec.language", "create a new one")),
		refusesUpdate("a runtime unset", whole, edits(unset("runtime")), says("spec.runtime", "create a new one")),
		refusesUpdate("an input set anew", edits(), edits(set("stdin", "in")), says("spec.stdin", "create a new one")),
		refusesUpdate("an input unset", whole, edits(unset("stdin")), says("spec.stdin", "create a new one")),
		refusesUpdate("arguments set anew", edits(), edits(set("args", "[a]")), says("spec.args", "create a new one")),
		refusesUpdate("arguments unset", whole, edits(unset("args")), says("spec.args", "create a new one")),
		refusesUpdate("an environment set anew", edits(), edits(set("env", "[{name: A, value: a}]")), says("spec.env", "create a new one")),
		refusesUpdate("an environment unset", whole, edits(unset("env")), says("spec.env", "create a new one")),
		refusesUpdate("a timeout set anew", edits(), edits(set("timeoutMilliseconds", "1")), says("spec.timeoutMilliseconds", "create a new one")),
		refusesUpdate("a timeout unset", whole, edits(unset("timeoutMilliseconds")), says("spec.timeoutMilliseconds", "create a new one")),
		refusesUpdate("a ttl set anew", edits(), edits(set("ttlSecondsAfterFinished", "1")), says("spec.ttlSecondsAfterFinished", "create a new one")),
		refusesUpdate("a ttl unset", whole, edits(unset("ttlSecondsAfterFinished")), says("spec.ttlSecondsAfterFinished", "create a new one")),
		takes("a program of Node", set("language", "Node")),
		takes("the shortest timeout", set("timeoutMilliseconds", "1")),
		takes("the longest timeout and ttl", set("timeoutMilliseconds", "290000"), set("ttlSecondsAfterFinished", "31536000")),
		takes("the largest run", largest...),
		refuses("a run that is larger than the largest", says("spec", "source, stdin, args, env and files must have at most 1048576 bytes together"),
			append(largest, set("runtime", "{env: [{name: A, value: a}]}"))...),
		takes("a runtimeRef of 63 characters", setText("runtimeRef.name", long(63))),
		takes("any text as input and argument", setText("stdin", "a\x00b\u202e🎉"), set("args", `["e\u0301", "\u200b", "🎉", "--"]`)),
		refuses("a runtimeRef without a name", says("spec.runtimeRef.name", "Required"), set("runtimeRef", "{}")),
		refuses("a runtimeRef with an empty name", says("spec.runtimeRef.name", "at least 1"), setText("runtimeRef.name", "")),
		refuses("a runtimeRef of 64 characters", says("spec.runtimeRef.name", "63"), setText("runtimeRef.name", long(64))),
		refuses("a runtimeRef in upper case", says("spec.runtimeRef.name", "should match"), setText("runtimeRef.name", "Python")),
		refuses("an argument with a NUL character", says("spec.args", "no NUL character"), set("args", `["a\0b"]`)),
		refuses("an argument of 4097 bytes in fewer characters", says("spec.args", "at most 4096 bytes"), set("args", "[x"+strings.Repeat("é", 2048)+"]")),
		refuses("arguments as one text", says("spec.args", "array"), setText("args", "-v")),
		takesUpdate("nothing of a run that names its runtime", edits(set("runtimeRef.name", "r")), edits()),
		refusesUpdate("a runtimeRef unset", edits(set("runtimeRef.name", "r")), edits(unset("runtimeRef")), says("spec.runtimeRef", "create a new one")),
		refusesUpdate("another runtimeRef", edits(set("runtimeRef.name", "r")), edits(set("runtimeRef.name", "s")), says("spec.runtimeRef", "create a new one")),
		refusesUpdate("a runtime set anew", edits(), edits(set("runtime", "{}")), says("spec.runtime", "create a new one")),
		refusesUpdate("a language set anew", edits(unset("language"), set("runtimeRef.name", "r")), edits(set("language", "Node")), says("spec.language", "create a new one")),
	)
}
