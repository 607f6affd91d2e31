package v1alpha1_test

import "strings"

// triggerRows are about the triggers of functions.
func triggerRows() []row {
	return of(functionKind,
		takes("a trigger of a type that nobody knows", set("triggers", `[{name: a, type: "my::type", config: {any: [1, {b: c}]}, metadata: {x: 1}}]`)),
		refuses("a trigger without a name", says("spec.triggers[0].name"), set("triggers", "[{type: http}]")),
		refuses("a trigger without a type", says("spec.triggers[0].type", "Required"), set("triggers", "[{name: a}]")),
		refuses("a trigger with an empty type", says("spec.triggers[0].type"), set("triggers", `[{name: a, type: ""}]`)),
		refuses("a trigger with upper case in its name", says("spec.triggers[0].name"), set("triggers", "[{name: A, type: http}]")),
		refuses("a trigger whose config is no object", says("spec.triggers[0].config", "object"), set("triggers", "[{name: a, type: http, config: [1]}]")),
		refuses("a trigger whose metadata is no object", says("spec.triggers[0].metadata", "object"), set("triggers", "[{name: a, type: http, metadata: 1}]")),
		refuses("two triggers of one name", says("spec.triggers[1]", "Duplicate"), set("triggers", "[{name: a, type: http}, {name: a, type: cron}]")),
		refuses("17 triggers", says("spec.triggers", "16"), manyNamed("triggers", 17, "type", "http")),
		refuses("20000 triggers", says("spec.triggers", "at most 16 items"), manyNamed("triggers", 20_000, "type", "http")),
		takesUpdate("a trigger more", edits(), edits(set("triggers", "[{name: a, type: http}]"))),
		takes("a trigger with a name of 63 characters", set("triggers", "[{name: "+long(63)+", type: t}]")),
		takes("a trigger with a type of 256 characters", set("triggers", "[{name: a, type: "+long(256)+"}]")),
		takes("16 triggers", manyNamed("triggers", 16, "type", "http")),
		takes("a trigger with empty objects", set("triggers", "[{name: a-1, type: cron, config: {}, metadata: {}}]")),
		refuses("a trigger with an empty name", says("spec.triggers[0].name", "at least 1"), set("triggers", `[{name: "", type: http}]`)),
		refuses("a trigger without anything", says("spec.triggers[0].name", "Required"), set("triggers", "[{}]")),
		refuses("a trigger with a name of 64 characters", says("spec.triggers[0].name", "63"), set("triggers", "[{name: "+long(64)+", type: t}]")),
		refuses("a trigger with a dot in its name", says("spec.triggers[0].name", "should match"), set("triggers", "[{name: a.b, type: t}]")),
		refuses("a trigger whose name ends with a dash", says("spec.triggers[0].name", "should match"), set("triggers", "[{name: a-, type: t}]")),
		refuses("a trigger whose name is a number", says("spec.triggers[0].name", "string"), set("triggers", "[{name: 1, type: t}]")),
		refuses("a trigger with a type of 257 characters", says("spec.triggers[0].type", "256"), set("triggers", "[{name: a, type: "+strings.Repeat("t", 257)+"}]")),
	)
}
