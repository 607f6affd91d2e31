package v1alpha1_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// manyNamed puts a list of that many items with names of their own at a path.
func manyNamed(path string, count int, key, value string) edit {
	return func(spec map[string]any) {
		list := make([]any, count)
		for i := range list {
			list[i] = map[string]any{"name": fmt.Sprintf("item%d", i), key: value}
		}
		setAt(spec, path, list)
	}
}

var _ = Describe("SandboxRuntime rules", Ordered, ContinueOnFailure, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	DescribeTable("specs that are accepted", func(ctx SpecContext, changes ...edit) {
		Expect(runtimeKind.tryCreate(ctx, namespace, changes...)).To(Succeed())
	},
		Entry("the minimal one"),
		Entry("an image of the catalog", set("image", "python-3.12_slim")),
		Entry("resources as strings", set("resources", "{cpu: 1500m, memory: 512Mi}")),
		Entry("resources as numbers", set("resources", "{cpu: 2, memory: 1073741824}")),
		Entry("the largest resources", set("resources", "{cpu: 255, memory: 1Ti}")),
		Entry("a network without bus access", set("network", "Enabled")),
		Entry("bus access with a network", set("network", "Enabled"), set("busAccess", "Enabled")),
		Entry("bus access that is off without a network", set("busAccess", "Disabled")),
		Entry("no replicas", set("replicas", "0")),
		Entry("64 replicas", set("replicas", "64"), set("concurrency", "64")),
		Entry("an empty idle policy", set("idle", "{}")),
		Entry("an idle policy that keeps", set("idle", "{timeoutSeconds: 604800, action: Keep}")),
		Entry("an idle policy that deletes its one replica", set("idle", "{timeoutSeconds: 30, action: Delete}"), set("replicas", "1")),
		Entry("an idle policy that deletes without a number of replicas", set("idle", "{action: Delete}")),
		Entry("an empty value of a variable", set("env", `[{name: A, value: ""}]`)),
		Entry("variables from Secrets and ConfigMaps", set("env",
			"[{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: B, valueFrom: {configMapKeyRef: {name: c, key: k}}}]")),
		Entry("a variable whose name only ends like the operator's", set("env", "[{name: MY_III_URL, value: x}]")),
		Entry("64 variables", manyNamed("env", 64, "value", "x")),
	)

	DescribeTable("specs that are refused", func(ctx SpecContext, fragments []string, changes ...edit) {
		expectRefusal(runtimeKind.tryCreate(ctx, namespace, changes...), fragments...)
	},
		Entry("no language", says("spec.language", "Required"), unset("language")),
		Entry("an unknown language", says("spec.language", `"Node", "Python"`), set("language", "Perl")),
		Entry("an image reference instead of a catalog name", says("spec.image"), set("image", "registry/python:3")),
		Entry("an empty image", says("spec.image"), setText("image", "")),
		Entry("no processors", says("spec.resources.cpu", "more than 0"), set("resources.cpu", "0")),
		Entry("negative processors", says("spec.resources.cpu", "more than 0"), set("resources.cpu", "-1")),
		Entry("256 processors", says("spec.resources.cpu", "at most 255"), set("resources.cpu", "256")),
		Entry("processors that are no quantity", says("spec.resources.cpu"), set("resources.cpu", "many")),
		Entry("memory whose unit was forgotten", says("spec.resources.memory", "counts bytes"), set("resources.memory", "512")),
		Entry("memory beyond the bound", says("spec.resources.memory", "1Ti"), set("resources.memory", "2Ti")),
		Entry("an unknown network", says("spec.network", `"Disabled", "Enabled"`), set("network", "true")),
		Entry("bus access without a network", says("spec.busAccess", "needs network: Enabled"), set("busAccess", "Enabled")),
		Entry("bus access with the network off", says("spec.busAccess", "needs network: Enabled"), set("busAccess", "Enabled"), set("network", "Disabled")),
		Entry("negative replicas", says("spec.replicas"), set("replicas", "-1")),
		Entry("65 replicas", says("spec.replicas", "64"), set("replicas", "65")),
		Entry("a concurrency of zero", says("spec.concurrency"), set("concurrency", "0")),
		Entry("a concurrency of 65", says("spec.concurrency", "64"), set("concurrency", "65")),
		Entry("an idle time of 29 seconds", says("spec.idle.timeoutSeconds", "30"), set("idle.timeoutSeconds", "29")),
		Entry("an idle time of more than a week", says("spec.idle.timeoutSeconds", "604800"), set("idle.timeoutSeconds", "604801")),
		Entry("an unknown idle action", says("spec.idle.action", `"Stop", "Keep", "Delete"`), set("idle.action", "Pause")),
		Entry("an idle policy that deletes two replicas", says("spec.idle.action", "at most one replica"), set("idle.action", "Delete"), set("replicas", "2")),
		Entry("a variable without a value", says("spec.env[0]", "exactly one of value and valueFrom"), set("env", "[{name: A}]")),
		Entry("a variable with two values", says("spec.env[0]", "exactly one of value and valueFrom"),
			set("env", "[{name: A, value: a, valueFrom: {secretKeyRef: {name: s, key: k}}}]")),
		Entry("a variable from nowhere", says("spec.env[0].valueFrom", "exactly one of secretKeyRef and configMapKeyRef"), set("env", "[{name: A, valueFrom: {}}]")),
		Entry("a variable from two places", says("spec.env[0].valueFrom", "exactly one of"),
			set("env", "[{name: A, valueFrom: {secretKeyRef: {name: s, key: k}, configMapKeyRef: {name: s, key: k}}}]")),
		Entry("a variable of the operator", says("spec.env[0].name", "III_", "belong to the operator"), set("env", "[{name: III_URL, value: x}]")),
		Entry("a name with a dash", says("spec.env[0].name"), set("env", "[{name: A-B, value: x}]")),
		Entry("a name of 129 characters", says("spec.env[0].name", "128"), set("env", "[{name: "+strings.Repeat("A", 129)+", value: x}]")),
		Entry("a value of 8193 characters", says("spec.env[0].value", "8192"), set("env", "[{name: A, value: "+strings.Repeat("v", 8193)+"}]")),
		Entry("two variables of one name", says("spec.env[1]", "Duplicate"), set("env", "[{name: A, value: a}, {name: A, value: b}]")),
		Entry("65 variables", says("spec.env", "64"), manyNamed("env", 65, "value", "x")),
	)

	DescribeTable("updates that are accepted", func(ctx SpecContext, before, change []edit) {
		Expect(runtimeKind.tryUpdate(ctx, namespace, before, change)).To(Succeed())
	},
		Entry("more replicas", edits(), edits(set("replicas", "3"))),
		Entry("another image and environment", edits(), edits(set("image", "node-22"), set("env", "[{name: A, value: a}]"))),
		Entry("suspend", edits(), edits(set("suspend", "true"))),
		Entry("network and bus access on", edits(), edits(set("network", "Enabled"), set("busAccess", "Enabled"))),
	)

	DescribeTable("updates that are refused", func(ctx SpecContext, before, change []edit, fragments []string) {
		expectRefusal(runtimeKind.tryUpdate(ctx, namespace, before, change), fragments...)
	},
		Entry("another language", edits(), edits(set("language", "Python")), says("spec.language", "make a new SandboxRuntime")),
		Entry("no language", edits(), edits(unset("language")), says("spec.language", "Required")),
		Entry("two replicas that idle deletes", edits(set("idle.action", "Delete")), edits(set("replicas", "2")), says("spec.idle.action", "at most one replica")),
		Entry("the network off under bus access", edits(set("network", "Enabled"), set("busAccess", "Enabled")), edits(unset("network")), says("spec.busAccess")),
	)
})
