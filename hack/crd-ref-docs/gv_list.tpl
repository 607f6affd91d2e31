{{- define "gvList" -}}
<!-- Generated from api/v1alpha1 by `make docs`; do not edit. -->
# API reference
{{ range . }}
## {{ .GroupVersionString }}

{{ .Doc }}

Kinds: {{ range $i, $kind := .SortedKinds }}{{ if $i }}, {{ end }}[{{ $kind }}](#{{ lower $kind }}){{ end }}.
{{ range .SortedTypes }}{{ template "type" . }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "type" -}}
{{- if markdownShouldRenderType . }}
### {{ .Name }}

{{ .Doc }}
{{ if .References }}
Used by: {{ range $i, $user := .SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $user }}{{ end }}.
{{ end }}
{{- if .EnumValues }}
| Value | Meaning |
| --- | --- |
{{ range .EnumValues -}}
| `{{ .Name }}` | {{ markdownRenderFieldDoc .Doc }} |
{{ end }}
{{- end }}
{{- if .Members }}
| Field | Type | Meaning | Bounds |
| --- | --- | --- | --- |
{{ range .Members -}}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ markdownRenderFieldDoc .Doc }} | {{ template "bounds" .Validation }} |
{{ end }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "bounds" -}}
{{- $some := false -}}
{{- range . -}}
{{- if not (or (hasPrefix "Optional" .) (hasPrefix "Schemaless" .)) -}}
{{- if $some }}; {{ end }}{{ $some = true -}}
{{- if hasPrefix "Required" . }}required{{ else }}{{ markdownRenderFieldDoc . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
