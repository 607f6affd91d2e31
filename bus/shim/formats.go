package shim

import (
	"encoding/json"
	"slices"
)

// maxFormatBytes bounds each schema (contracts/code-runner.md §18 D27).
const maxFormatBytes = 16 << 10

// annotations of JSON Schema say something about a value, but allow any.
var annotations = []string{
	"$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "readOnly", "writeOnly", "deprecated",
}

// checkAdditions bounds what the original does not have.
func (r registerRequest) checkAdditions() error {
	for _, format := range []struct {
		field string
		raw   json.RawMessage
	}{{"request_format", r.requestFormat}, {"response_format", r.responseFormat}} {
		if err := checkFormat(format.field, format.raw); err != nil {
			return err
		}
	}
	if err := r.check(false); err != nil {
		return err
	}
	return checkSize([]any{r.env, r.files, r.packages}, "env, files and packages")
}

// checkFormat refuses a schema that says nothing: readers of the catalog would
// take it for a promise.
func checkFormat(field string, raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	if len(raw) > maxFormatBytes {
		return invalid("%s has %d bytes; the limit is %d", field, len(raw), maxFormatBytes)
	}
	var keywords map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keywords); err != nil {
		return invalid("%s must be a JSON object", field)
	}
	for keyword := range keywords {
		if !slices.Contains(annotations, keyword) {
			return nil
		}
	}
	return invalid(`%s allows every value; give it a type or properties, or leave it out`, field)
}
