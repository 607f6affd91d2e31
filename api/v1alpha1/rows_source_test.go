package v1alpha1_test

import (
	"strings"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// digest is the SHA-256 of some source.
var digest = strings.Repeat("0f", 32)

// sourceRows are about where code comes from.
func sourceRows() []row {
	return append(at([]place{{kind: functionKind}, {kind: runKind}}, anySourceRows), of(runKind,
		takes("a transient source", set("source", "{transient: {sha256: "+digest+"}}")),
		refuses("an inline and a transient source", says("spec.source", "exactly one of"), set("source.transient.sha256", digest)),
		refuses("a transient source without a digest", says("spec.source.transient.sha256", "Required"), set("source", "{transient: {}}")),
		refuses("a digest in upper case", says("spec.source.transient.sha256", "should match"), set("source", "{transient: {sha256: "+strings.ToUpper(digest)+"}}")),
		refuses("a digest that is too short", says("spec.source.transient.sha256", "should match"), set("source", "{transient: {sha256: abcd}}")),
		refuses("a digest that is too long", says("spec.source.transient.sha256", "64"), set("source", "{transient: {sha256: "+digest+"0}}")),
	)...)
}

func anySourceRows() []row {
	return []row{
		takes("a source from a ConfigMap", set("source", `{configMapKeyRef: {name: code, key: price.mjs}}`)),
		takes("a source of one character", setText("source.inline", "1")),
		takes("131072 bytes of source", setText("source.inline", long(v1alpha1.MaxInlineSourceBytes))),
		takes("131072 bytes of multi-byte source", setText("source.inline", strings.Repeat("é", v1alpha1.MaxInlineSourceBytes/2))),
		takes("131072 bytes of source that JSON escapes", setText("source.inline", strings.Repeat("\x01", v1alpha1.MaxInlineSourceBytes))),
		refuses("no source", says("spec.source", "Required"), unset("source")),
		refuses("an empty source", says("spec.source", "exactly one of inline"), set("source", "{}")),
		refuses("two sources", says("spec.source", "exactly one of inline"), set("source.configMapKeyRef", "{name: a, key: b}")),
		refuses("an empty inline source", says("spec.source.inline", "at least 1"), setText("source.inline", "")),
		refuses("131073 bytes of source", says("spec.source.inline", "131072"), setText("source.inline", long(v1alpha1.MaxInlineSourceBytes+1))),
		refuses("131073 bytes of multi-byte source", says("spec.source.inline", "at most 131072 bytes", "ConfigMap"),
			setText("source.inline", "x"+strings.Repeat("é", v1alpha1.MaxInlineSourceBytes/2))),
		refuses("a source as text", says("spec.source", "object"), setText("source", "print(1)")),
	}
}
