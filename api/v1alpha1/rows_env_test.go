package v1alpha1_test

import "strings"

// envRows are about environment variables.
func envRows() []row {
	return at(append(guests("Node"), place{kind: runKind}), func() []row {
		return []row{
			takes("an empty value of a variable", set("env", `[{name: A, value: ""}]`)),
			takes("variables from Secrets and ConfigMaps", set("env",
				"[{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: B, valueFrom: {configMapKeyRef: {name: c, key: k}}}]")),
			takes("a variable whose name only ends like the operator's", set("env", "[{name: MY_III_URL, value: x}]")),
			takes("64 variables", manyNamed("env", 64, "value", "x")),
			refuses("a variable without a value", says("spec.env[0]", "exactly one of value and valueFrom"), set("env", "[{name: A}]")),
			refuses("a variable with two values", says("spec.env[0]", "exactly one of value and valueFrom"),
				set("env", "[{name: A, value: a, valueFrom: {secretKeyRef: {name: s, key: k}}}]")),
			refuses("a variable from nowhere", says("spec.env[0].valueFrom", "exactly one of secretKeyRef and configMapKeyRef"), set("env", "[{name: A, valueFrom: {}}]")),
			refuses("a variable from two places", says("spec.env[0].valueFrom", "exactly one of"),
				set("env", "[{name: A, valueFrom: {secretKeyRef: {name: s, key: k}, configMapKeyRef: {name: s, key: k}}}]")),
			refuses("a variable of the operator", says("spec.env[0].name", "III_", "belong to the operator"), set("env", "[{name: III_URL, value: x}]")),
			refuses("a name with a dash", says("spec.env[0].name"), set("env", "[{name: A-B, value: x}]")),
			refuses("a name of 129 characters", says("spec.env[0].name", "128"), set("env", "[{name: "+strings.Repeat("A", 129)+", value: x}]")),
			refuses("a value of 8193 characters", says("spec.env[0].value", "8192"), set("env", "[{name: A, value: "+strings.Repeat("v", 8193)+"}]")),
			refuses("two variables of one name", says("spec.env[1]", "Duplicate"), set("env", "[{name: A, value: a}, {name: A, value: b}]")),
			refuses("65 variables", says("spec.env", "64"), manyNamed("env", 65, "value", "x")),
			refuses("20000 variables", says("spec.env", "at most 64 items"), manyNamed("env", 20_000, "value", "x")),
			takes("a name of one character", set("env", "[{name: _, value: x}]")),
			takes("a name of 128 characters", set("env", "[{name: "+long(128)+", value: x}]")),
			takes("64 values of 8192 bytes", manyNamed("env", 64, "value", long(8192))),
			takes("8192 bytes of multi-byte value", set("env", "[{name: A, value: "+strings.Repeat("é", 4096)+"}]")),
			takes("values of any text", set("env", `[{name: A, value: "e\u0301 \u00e9"}, {name: B, value: "\u202eשלום"}, {name: C, value: "🎉\u200d"}, {name: D, value: "a\n\tb\u0001"}]`)),
			refuses("a variable without a name", says("spec.env[0].name", "Required"), set("env", "[{value: x}]")),
			refuses("an empty name", says("spec.env[0].name", "at least 1"), set("env", `[{name: "", value: x}]`)),
			refuses("a name with an equals sign", says("spec.env[0].name", "should match"), set("env", `[{name: "A=B", value: x}]`)),
			refuses("a name that begins with a digit", says("spec.env[0].name", "should match"), set("env", "[{name: 1A, value: x}]")),
			refuses("a name in another script", says("spec.env[0].name", "should match"), set("env", "[{name: ключ, value: x}]")),
			refuses("a name with a zero-width joiner", says("spec.env[0].name", "should match"), set("env", `[{name: "A\u200dB", value: x}]`)),
			refuses("a value of 8193 bytes in fewer characters", says("spec.env[0].value", "at most 8192 bytes"), set("env", "[{name: A, value: x"+strings.Repeat("é", 4096)+"}]")),
			refuses("a value with a NUL character", says("spec.env[0].value", "no NUL character"), set("env", `[{name: A, value: "a\0b"}]`)),
		}
	})
}
