package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Exposure opens functions to a listener's workers: those whose id matches, or
// those whose metadata do (contracts/iii-bus.md §9.3). In YAML and JSON it is a
// pattern, bare or as match("…"), or an object with these fields.
type Exposure struct {
	// Match is a pattern of function ids, in which * stands for any characters.
	Match string `json:"match,omitempty"`
	// Metadata are values that the function's metadata must have, all of them; a
	// text of the form match("…") is a pattern.
	Metadata map[string]any `json:"metadata,omitempty"`
	// Namespace is where the functions are; empty means default.
	Namespace string `json:"namespace,omitempty"`
}

// UnmarshalJSON takes both forms. Unknown fields are an error.
func (e *Exposure) UnmarshalJSON(text []byte) error {
	*e = Exposure{}
	if bytes.HasPrefix(text, []byte(`"`)) {
		return json.Unmarshal(text, &e.Match)
	}
	type fields Exposure
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode((*fields)(e))
}

func (e Exposure) validate() error {
	switch {
	case strings.TrimSpace(e.Match) == "" && len(e.Metadata) == 0:
		return errors.New("an exposure needs a pattern or metadata")
	case e.Match != "" && len(e.Metadata) > 0:
		return errors.New("an exposure has a pattern or metadata, not both")
	}
	return nil
}

func (e Exposure) covers(t target) bool {
	namespace := e.Namespace
	if namespace == "" {
		namespace = protocol.DefaultNamespace
	}
	switch {
	case namespace != t.namespace:
		return false
	case e.Match != "":
		return matches(barePattern(e.Match), t.id)
	}
	return e.describes(t.metadata)
}

// describes is false for a function without metadata, whatever is wanted.
func (e Exposure) describes(metadata json.RawMessage) bool {
	var present map[string]any
	if len(e.Metadata) == 0 || json.Unmarshal(metadata, &present) != nil {
		return false
	}
	for name, wanted := range e.Metadata {
		value, ok := present[name]
		if !ok || !sameValue(wanted, value) {
			return false
		}
	}
	return true
}

func sameValue(wanted, value any) bool {
	pattern, isText := wanted.(string)
	text, valueIsText := value.(string)
	if isText && valueIsText && strings.HasPrefix(pattern, `match("`) {
		return matches(barePattern(pattern), text)
	}
	return reflect.DeepEqual(wanted, value)
}

// barePattern takes a pattern in its form match("…") as well.
func barePattern(p string) string {
	if inner, ok := strings.CutPrefix(p, `match("`); ok {
		return strings.TrimSuffix(inner, `")`)
	}
	return p
}

func matchesAny(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, id) })
}

// matches tells whether a pattern, in which * stands for any characters, covers
// a whole id.
func matches(pattern, id string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == id
	}
	rest, ok := strings.CutPrefix(id, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
