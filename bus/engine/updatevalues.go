package engine

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// maxNumberDigits bounds the arithmetic on one number.
const maxNumberDigits = 400

// merge copies the fields of an object into the one at the path. What is
// missing on the way, or is no object, becomes one; a value that is no object
// itself stays as it is.
func (d *document) merge(op updateOp) *opFailure {
	source, failed := mergeable(op.Value)
	if failed != nil {
		return failed
	}
	target, isObject := d.value.(map[string]any)
	if !isObject {
		if len(op.Path) == 0 {
			return fails("merge.target_not_object", "the value is %s, not an object", kindOf(d.value))
		}
		target = map[string]any{}
		d.value = target
	}
	target = descend(target, op.Path)
	for name, value := range source {
		target[name] = value
	}
	return nil
}

func mergeable(text json.RawMessage) (map[string]any, *opFailure) {
	source, ok := decodeAny(text).(map[string]any)
	switch {
	case !ok:
		return nil, fails("merge.value.not_an_object", "the value to merge is no object")
	case len(source) > maxMergeKeys:
		return nil, fails("merge.value.too_many_keys", "the value to merge has more than %d keys", maxMergeKeys)
	case depthOf(source) > maxMergeDepth:
		return nil, fails("merge.value.too_deep", "the value to merge is nested more than %d deep", maxMergeDepth)
	}
	for name := range source {
		if slices.Contains(pollutedKeys, name) {
			return nil, fails("merge.value.proto_polluted", "the name %s is not allowed in a value to merge", name)
		}
	}
	return source, nil
}

func depthOf(value any) int {
	deepest := 0
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, depthOf(inner))
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, depthOf(inner))
		}
	default:
		return 0
	}
	return deepest + 1
}

// descend finds or makes the object at a path.
func descend(object map[string]any, path []string) map[string]any {
	for _, name := range path {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[name] = next
		}
		object = next
	}
	return object
}

// append adds an element to an array, or text to a string, at the path.
func (d *document) append(op updateOp) *opFailure {
	value := decodeAny(op.Value)
	if len(op.Path) == 0 {
		target := d.value
		if d.untouched {
			target = nil
		}
		return appendTo(target, value, func(v any) { d.value = v })
	}
	object, failed := d.fields(op)
	if failed != nil {
		return failed
	}
	parents, name := op.Path[:len(op.Path)-1], op.Path[len(op.Path)-1]
	object = descend(object, parents)
	present, exists := object[name]
	if !exists && len(parents) > 0 {
		// Only a field of the value itself may begin as a string.
		present = []any{}
	}
	return appendTo(present, value, func(v any) { object[name] = v })
}

func appendTo(target, value any, store func(any)) *opFailure {
	text, isText := value.(string)
	switch present := target.(type) {
	case nil:
		if isText {
			store(text)
		} else {
			store([]any{value})
		}
	case []any:
		store(append(present, value))
	case string:
		if !isText {
			return fails("append.type_mismatch", "%s cannot be appended to a string", kindOf(value))
		}
		store(present + text)
	default:
		return fails("append.type_mismatch", "nothing can be appended to %s", kindOf(target))
	}
	return nil
}

// count adds to a number or takes from it; what is missing counts as 0.
func (d *document) count(op updateOp) *opFailure {
	by := big.NewInt(op.By)
	if op.Type == "decrement" {
		by.Neg(by)
	}
	if len(op.Path) == 0 {
		target := d.value
		if d.untouched {
			target = json.Number("0")
		}
		return addTo(op, target, by, func(v any) { d.value = v })
	}
	object, failed := d.fields(op)
	if failed != nil {
		return failed
	}
	present, exists := object[op.Path[0]]
	if !exists {
		present = json.Number("0")
	}
	return addTo(op, present, by, func(v any) { object[op.Path[0]] = v })
}

// addTo adds exactly to integers and as float64 to others.
func addTo(op updateOp, target any, by *big.Int, store func(any)) *opFailure {
	number, ok := target.(json.Number)
	if !ok {
		return fails(op.Type+".not_number", "the target is %s, not a number", kindOf(target))
	}
	if len(number) > maxNumberDigits {
		return fails(op.Type+".not_number", "the target is out of range")
	}
	if whole, ok := new(big.Int).SetString(number.String(), 10); ok {
		store(json.Number(whole.Add(whole, by).String()))
		return nil
	}
	fraction, err := number.Float64()
	difference, _ := new(big.Float).SetInt(by).Float64()
	if sum := fraction + difference; err == nil && !math.IsInf(sum, 0) {
		store(json.Number(strconv.FormatFloat(sum, 'g', -1, 64)))
		return nil
	}
	return fails(op.Type+".not_number", "the target is out of range")
}
