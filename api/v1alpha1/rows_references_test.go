package v1alpha1_test

import (
	"slices"
	"strings"
)

// reference is where a spec selects a key of a Secret or ConfigMap.
type reference struct {
	// path in the spec, and what stands around the reference there.
	field, path, before, after string
}

// set puts the reference, written in YAML, there.
func (r reference) set(written string) edit { return set(r.field, r.before+written+r.after) }

var (
	sourceReference = reference{"source", "spec.source.configMapKeyRef.", "{configMapKeyRef: ", "}"}
	guestReferences = []reference{
		{"env", "spec.env[0].valueFrom.secretKeyRef.", "[{name: A, valueFrom: {secretKeyRef: ", "}}]"},
		{"env", "spec.env[0].valueFrom.configMapKeyRef.", "[{name: A, valueFrom: {configMapKeyRef: ", "}}]"},
		{"files", "spec.files[0].contentFrom.secretKeyRef.", "[{path: /a, contentFrom: {secretKeyRef: ", "}}]"},
		{"files", "spec.files[0].contentFrom.configMapKeyRef.", "[{path: /a, contentFrom: {configMapKeyRef: ", "}}]"},
	}
)

// referenceRows are about references to keys of Secrets and ConfigMaps.
func referenceRows() []row {
	all := slices.Concat(of(functionKind, keyRows(sourceReference)...), of(runKind, keyRows(sourceReference)...))
	for _, r := range guestReferences {
		all = append(all, at(append(guests("Node"), place{kind: runKind}), func() []row { return keyRows(r) })...)
	}
	return all
}

func keyRows(r reference) []row {
	name, key := r.path+"name", r.path+"key"
	rows := []row{
		takes("the shortest names", r.set("{name: a, key: k}")),
		takes("names of 253 characters", r.set("{name: "+long(253)+", key: "+long(253)+"}")),
		takes("every character of a name", r.set("{name: a-0.b, key: -A._z}")),
		refuses("no name", says(name, "Required"), r.set("{key: k}")),
		refuses("no key", says(key, "Required"), r.set("{name: a}")),
		refuses("an empty name", says(name, "at least 1"), r.set(`{name: "", key: k}`)),
		refuses("an empty key", says(key, "at least 1"), r.set(`{name: a, key: ""}`)),
		refuses("a name of 254 characters", says(name, "253"), r.set("{name: "+long(254)+", key: k}")),
		refuses("a key of 254 characters", says(key, "253"), r.set("{name: a, key: "+long(254)+"}")),
		refuses("a name in upper case", says(name, "should match"), r.set("{name: Code, key: k}")),
		refuses("a name of another namespace", says(name, "should match"), r.set("{name: other/code, key: k}")),
		refuses("a key with a slash", says(key, "should match"), r.set("{name: a, key: a/b}")),
		refuses("a key that is a dot", says(key, "must not be ."), r.set(`{name: a, key: "."}`)),
		refuses("a key that begins with two dots", says(key, "must not be ."), r.set("{name: a, key: ..data}")),
	}
	for i := range rows {
		rows[i].text += " at " + strings.TrimSuffix(strings.TrimPrefix(r.path, "spec."), ".")
	}
	return rows
}
