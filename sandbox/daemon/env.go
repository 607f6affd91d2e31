package daemon

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"
)

// gatewayAddress is where a guest with a network finds its host
// (contracts/iii-sandbox.md §6).
const gatewayAddress = "100.96.0.1"

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment is an env field in either of its two shapes: a list of K=V, whose
// names nobody checks, or a map, whose names are checked (§3.1).
type environment struct {
	values map[string]string
	mapped bool
}

// UnmarshalJSON implements json.Unmarshaler for both shapes.
func (e *environment) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	var list []string
	if json.Unmarshal(text, &list) == nil {
		e.values = make(map[string]string, len(list))
		for _, item := range list {
			name, value, _ := strings.Cut(item, "=")
			e.values[name] = value
		}
		return nil
	}
	e.mapped = true
	if json.Unmarshal(text, &e.values) != nil {
		return errors.New(`env must be a list of "K=V" strings or a map of strings`)
	}
	return nil
}

// JSONSchema publishes both shapes.
func (environment) JSONSchema() *jsonschema.Schema {
	text := &jsonschema.Schema{Type: "string"}
	return &jsonschema.Schema{
		Description: `Environment: a list of "K=V" strings or a map.`,
		OneOf: []*jsonschema.Schema{
			{Type: "array", Items: text},
			{Type: "object", AdditionalProperties: text},
		},
	}
}

// check refuses names outside the rule of the map form, and what no operating
// system takes.
func (e environment) check() error {
	for name, value := range e.values {
		if e.mapped && !envName.MatchString(name) {
			return invalidRequest("env name %q must match %s", name, envName)
		}
		if strings.ContainsRune(name+value, 0) {
			return invalidRequest("env %q holds a NUL character", strings.ReplaceAll(name, "\x00", ""))
		}
	}
	return nil
}

// size is what the environment takes of a shell frame, in bytes.
func (e environment) size() int {
	total := 0
	for name, value := range e.values {
		total += len(name) + len(value) + 2
	}
	return total
}

// forGuest returns the create-time environment of a guest with a network, where
// the host's loopback in a URL is the gateway (§6).
func forGuest(values map[string]string) map[string]string {
	rewritten := make(map[string]string, len(values))
	replacer := strings.NewReplacer(
		"://localhost:", "://"+gatewayAddress+":",
		"://127.0.0.1:", "://"+gatewayAddress+":",
	)
	for name, value := range values {
		rewritten[name] = replacer.Replace(value)
	}
	return rewritten
}
