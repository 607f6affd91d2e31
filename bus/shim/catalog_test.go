package shim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCatalog is a snapshot: the order, the fields with their types, an asterisk
// behind those that are required. A change here is a change for every caller.
func TestCatalog(t *testing.T) {
	want := []string{
		"run",
		"  args: array|null",
		"  code: string*",
		"  env: object|null",
		"  files: array|null",
		"  keep: boolean",
		"  lang: string|null",
		"  packages: array|null",
		"  runtime_id: string|null",
		"  stdin: string|null",
		"  timeout_ms: integer|null",
		"  → duration_ms: integer*",
		"  → exit_code: integer*",
		"  → result: object|array|string|number|boolean|null",
		"  → runtime_id: string",
		"  → stderr: string*",
		"  → stdout: string*",
		"  → success: boolean*",
		"  → timings: object",
		"  → truncated: boolean",
		"teardown",
		"  force: boolean",
		"  namespace: string|null",
		"  runtime_id: string|null",
		"  → namespace: string",
		"  → runtime_id: string",
		"  → torn_down: boolean*",
		"  → unregistered: array*",
		"register_function",
		"  description: string|null",
		"  env: object|null",
		"  files: array|null",
		"  function_id: string*",
		"  lang: string*",
		"  packages: array|null",
		"  replace: boolean",
		"  request_format: object|null",
		"  response_format: object|null",
		"  source: string*",
		"  timeout_ms: integer|null",
		"  → function_id: string*",
		"  → registered: boolean*",
		"list_runtimes",
		"  → runtimes: array*",
		"inject-guidance (internal)",
		"  generate: object",
		"  → mutations: object*",
	}
	var got []string
	for _, f := range newWorld(t).shim.functions() {
		name := strings.TrimPrefix(f.ID, "sandbox-code-runner::")
		if string(f.Metadata) == `{"internal":true}` {
			name += " (internal)"
		}
		got = append(got, name)
		got = append(got, fieldsOf(t, "  ", f.RequestFormat)...)
		got = append(got, fieldsOf(t, "  → ", f.ResponseFormat)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
}

func fieldsOf(t *testing.T, indent string, data json.RawMessage) (lines []string) {
	t.Helper()
	var schema struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		kind := strings.ReplaceAll(strings.Trim(fmt.Sprint(schema.Properties[name].Type), "[]"), " ", "|")
		if slices.Contains(schema.Required, name) {
			kind += "*"
		}
		lines = append(lines, indent+name+": "+kind)
	}
	return lines
}

// TestReservedNames: nobody can take an id that this worker has or comes to
// have, the event type included.
func TestReservedNames(t *testing.T) {
	w := newWorld(t)
	var own []string
	for id := range w.bus.functions {
		own = append(own, id)
	}
	for _, kind := range w.bus.types {
		own = append(own, kind.ID)
	}
	if len(own) != 7 {
		t.Errorf("%d ids on the bus: %v", len(own), own)
	}
	for _, id := range append(own, "sandbox-code-runner::ui-content", "sandbox-code-runner::on-config-change") {
		wantText(t, w.callError("register_function", registration(id)), "invalid_request: ", "already registered", "by this worker")
	}
	if w.bus.probed() != 0 || len(w.wrote()) != 0 {
		t.Errorf("the bus was asked %d times", w.bus.probed())
	}
}
