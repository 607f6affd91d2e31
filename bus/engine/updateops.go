package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Bounds of an update operation.
const (
	maxUpdateOps          = 1024
	maxUpdatePathSegments = 32
	maxUpdateSegmentBytes = 256
	maxMergeKeys          = 1024
	maxMergeDepth         = 16
)

// pollutedKeys are names that reach behind an object in JavaScript; values with
// them would be unsafe for the Node clients that read them.
var pollutedKeys = []string{"__proto__", "constructor", "prototype"}

// updateOp is one operation of state::update (contracts/iii-bus.md §7.2).
type updateOp struct {
	Type  string          `json:"type"`
	Path  updatePath      `json:"path"`
	Value json.RawMessage `json:"value"`
	By    int64           `json:"by"`
}

// updatePath is a field's name, or for merge and append the names on the way
// down. A dot in a name is no separator. Empty is the value itself.
type updatePath []string

// UnmarshalJSON takes a string or an array of strings.
func (p *updatePath) UnmarshalJSON(text []byte) error {
	*p = nil
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(p))
	}
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	if name != "" {
		*p = updatePath{name}
	}
	return nil
}

// updateError says why one operation had no effect; the others still count.
type updateError struct {
	OpIndex int    `json:"op_index"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// opFailure is an updateError before its index is known.
type opFailure struct{ code, message string }

func fails(code, format string, args ...any) *opFailure {
	return &opFailure{code, fmt.Sprintf(format, args...)}
}

// document is the value that operations work on.
type document struct {
	value any
	// untouched is true while an absent value stands as {}.
	untouched bool
}

// applyUpdates runs the operations in order; a nil old value is an absent one.
func applyUpdates(old json.RawMessage, ops []updateOp) (json.RawMessage, []updateError, error) {
	if len(ops) > maxUpdateOps {
		return nil, nil, fmt.Errorf("more than %d operations", maxUpdateOps)
	}
	doc := document{value: map[string]any{}, untouched: old == nil}
	if old != nil {
		doc.value = decodeAny(old)
	}
	var problems []updateError
	for i, op := range ops {
		if failed := doc.apply(op); failed != nil {
			problems = append(problems, updateError{i, failed.code, failed.message})
		}
	}
	return mustJSON(doc.value), problems, nil
}

func (d *document) apply(op updateOp) *opFailure {
	if failed := op.checkPath(); failed != nil {
		return failed
	}
	var failed *opFailure
	switch op.Type {
	case "set":
		failed = d.set(op)
	case "merge":
		failed = d.merge(op)
	case "increment", "decrement":
		failed = d.count(op)
	case "append":
		failed = d.append(op)
	case "remove":
		failed = d.remove(op)
	default:
		return fails("unknown_operation", "operation %q is unknown", op.Type)
	}
	if failed == nil {
		d.untouched = false
	}
	return failed
}

func (op updateOp) checkPath() *opFailure {
	nested := op.Type == "merge" || op.Type == "append"
	if len(op.Path) > maxUpdatePathSegments || !nested && len(op.Path) > 1 {
		return fails(op.Type+".path.too_deep", "the path has too many segments")
	}
	for _, segment := range op.Path {
		switch {
		case segment == "":
			return fails(op.Type+".path.empty_segment", "a segment of the path is empty")
		case len(segment) > maxUpdateSegmentBytes:
			return fails(op.Type+".path.segment_too_long", "a segment of the path has more than %d bytes", maxUpdateSegmentBytes)
		case slices.Contains(pollutedKeys, segment):
			return fails(op.Type+".path.proto_polluted", "the name %s is not allowed in a path", segment)
		}
	}
	return nil
}

// fields is the value as an object.
func (d *document) fields(op updateOp) (map[string]any, *opFailure) {
	if object, ok := d.value.(map[string]any); ok {
		return object, nil
	}
	return nil, fails(op.Type+".target_not_object", "the value is %s, not an object", kindOf(d.value))
}

func (d *document) set(op updateOp) *opFailure {
	if len(op.Path) == 0 {
		d.value = decodeAny(op.Value)
		return nil
	}
	object, failed := d.fields(op)
	if failed == nil {
		object[op.Path[0]] = decodeAny(op.Value)
	}
	return failed
}

// remove of the value itself leaves null.
func (d *document) remove(op updateOp) *opFailure {
	if len(op.Path) == 0 {
		d.value = nil
		return nil
	}
	object, failed := d.fields(op)
	if failed == nil {
		delete(object, op.Path[0])
	}
	return failed
}

// decodeAny keeps numbers as they are written. Nothing is null.
func decodeAny(text json.RawMessage) any {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	// What came through a frame is valid, and an absent value leaves nil.
	_ = decoder.Decode(&value)
	return value
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}
