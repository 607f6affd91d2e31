package shim

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// fields is a request by field, so that names match exactly, unknown ones are
// ignored (the engine adds one: contracts/code-runner.md §3.2), and a value of
// the wrong type is reported in the caller's words. The first error stays.
type fields struct {
	values map[string]json.RawMessage
	err    error
}

func decodeFields(data json.RawMessage) *fields {
	f := &fields{}
	if err := json.Unmarshal(data, &f.values); err != nil || f.values == nil {
		f.err = invalid("the payload must be a JSON object")
	}
	return f
}

// value is nil for an absent field.
func (f *fields) value(name string) json.RawMessage {
	return bytes.TrimSpace(f.values[name])
}

// nullable is value with null as absent (§3.3).
func (f *fields) nullable(name string) json.RawMessage {
	if value := f.value(name); string(value) != "null" {
		return value
	}
	return nil
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = invalid(format, args...)
	}
}

func (f *fields) text(name string) string {
	value := f.value(name)
	if value == nil {
		f.fail("%s is missing", name)
		return ""
	}
	return f.asText(name, value)
}

func (f *fields) optionalText(name string) *string {
	value := f.nullable(name)
	if value == nil {
		return nil
	}
	text := f.asText(name, value)
	return &text
}

func (f *fields) asText(name string, value json.RawMessage) string {
	var text string
	if value[0] != '"' || json.Unmarshal(value, &text) != nil {
		f.fail("%s must be a string", name)
	}
	return text
}

// flag takes a boolean or absence, but not null (§3.3).
func (f *fields) flag(name string) bool {
	switch string(f.value(name)) {
	case "true":
		return true
	case "false", "":
	default:
		f.fail("%s must be true or false", name)
	}
	return false
}

// milliseconds takes an unsigned 64-bit integer; 0 stands for absent too (§8).
func (f *fields) milliseconds(name string) uint64 {
	value := f.nullable(name)
	if value == nil {
		return 0
	}
	number, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil {
		f.fail("%s must be a whole number of milliseconds, 0 or more", name)
	}
	return number
}

func (f *fields) language(name string) v1alpha1.Language {
	value := f.value(name)
	if value == nil {
		f.fail("%s is missing", name)
		return ""
	}
	return f.asLanguage(name, value)
}

func (f *fields) optionalLanguage(name string) v1alpha1.Language {
	value := f.nullable(name)
	if value == nil {
		return ""
	}
	return f.asLanguage(name, value)
}

func (f *fields) asLanguage(name string, value json.RawMessage) v1alpha1.Language {
	for language, word := range languageWords {
		if string(value) == `"`+word+`"` {
			return language
		}
	}
	f.fail(`%s must be "node" or "python"`, name)
	return ""
}

// languageWords are the languages as the bus spells them (§2).
var languageWords = map[v1alpha1.Language]string{
	v1alpha1.LanguageNode:   "node",
	v1alpha1.LanguagePython: "python",
}

// texts takes a list of strings; nil when absent.
func (f *fields) texts(name string) []string {
	value := f.nullable(name)
	if value == nil {
		return nil
	}
	var raw []json.RawMessage
	if json.Unmarshal(value, &raw) != nil {
		f.fail("%s must be a list of strings", name)
		return nil
	}
	list := make([]string, 0, len(raw))
	for i, item := range raw {
		list = append(list, f.asText(name+"["+strconv.Itoa(i)+"]", item))
	}
	return list
}

// textMap takes an object of strings; nil when absent.
func (f *fields) textMap(name string) map[string]string {
	value := f.nullable(name)
	if value == nil {
		return nil
	}
	var raw map[string]json.RawMessage
	if value[0] != '{' || json.Unmarshal(value, &raw) != nil {
		f.fail("%s must be an object of strings", name)
		return nil
	}
	found := make(map[string]string, len(raw))
	for key, item := range raw {
		found[key] = f.asText(name+"."+cut(key, maxEnvNameBytes), item)
	}
	return found
}

// files takes a list of objects with path, content and, optionally, mode.
func (f *fields) files(name string) []v1alpha1.File {
	value := f.nullable(name)
	if value == nil {
		return nil
	}
	var raw []json.RawMessage
	if json.Unmarshal(value, &raw) != nil {
		f.fail(`%s must be a list of objects such as {"path": "data.csv", "content": "1,2"}`, name)
		return nil
	}
	var list []v1alpha1.File
	for i, item := range raw {
		list = append(list, f.file(name+"["+strconv.Itoa(i)+"]", item))
	}
	return list
}

func (f *fields) file(name string, value json.RawMessage) v1alpha1.File {
	inner := decodeFields(value)
	content := inner.text("content")
	file := v1alpha1.File{Path: inner.text("path"), Content: &content}
	if mode := inner.optionalText("mode"); mode != nil {
		file.Mode = *mode
	}
	if inner.err != nil {
		f.fail("%s: %s", name, messageOf(inner.err))
	}
	return file
}

// object takes a JSON object as it is; nil when absent.
func (f *fields) object(name string) json.RawMessage {
	value := f.nullable(name)
	if value != nil && value[0] != '{' {
		f.fail("%s must be a JSON object", name)
	}
	return value
}
