package shim

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

func TestGuidance(t *testing.T) {
	w := newWorld(t)
	text := w.shim.guidance()
	none := map[string]any{"mutations": map[string]any{}}
	cases := map[string]struct {
		payload string
		want    map[string]any
	}{
		"a base": {`{"generate":{"system_prompt":"Be kind.","x":1},"y":2}`,
			map[string]any{"mutations": map[string]any{"system_prompt": "Be kind.\n\n" + text}}},
		"an empty base":             {`{"generate":{"system_prompt":""}}`, none},
		"no base":                   {`{"generate":{}}`, none},
		"nothing":                   {`{}`, none},
		"null":                      {`null`, none},
		"a payload of another form": {`[1]`, none},
		"a base of another form":    {`{"generate":{"system_prompt":7}}`, none},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, w.mustCall("inject-guidance", tc.payload)); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGuidance_text(t *testing.T) {
	text := newWorld(t, func(o *Options) { o.WorkerName = "code-runner" }).shim.guidance()
	for _, want := range []string{
		"code-runner::run`", "code-runner::register_function`", "code-runner::teardown`", "code-runner::list_runtimes`",
		"one-shot", "nothing persists", `"keep": true`, "runtime_id` is a secret", "handler(payload)", "def handler(payload)",
		"export const handler", "`expired`", "with its\nfiles", "needs no `runtime_id`", "unregistered by itself", "iii.trigger",
		"die with its process", "stalls", "outbound network", `"replace": true`, "resource_exhausted",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	for _, removed := range []string{"eval", "sandbox-code-runner::", "inject-guidance", "ui-content", `"network"`} {
		if strings.Contains(text, removed) {
			t.Errorf("the text has %q", removed)
		}
	}
}

func TestGuidance_hook(t *testing.T) {
	hooks := func(w *world) (found []bus.Trigger) {
		for _, trigger := range w.bus.triggers {
			if trigger.Type == "harness::hook::pre-generate" {
				found = append(found, trigger)
			}
		}
		return found
	}
	if got := hooks(newWorld(t)); len(got) != 0 {
		t.Errorf("bound although it is off: %v", got)
	}
	w := newWorld(t, func(o *Options) { o.InjectGuidance = true })
	got := hooks(w)
	if len(got) != 1 || got[0].FunctionID != "sandbox-code-runner::inject-guidance" || string(got[0].Config) != `{"on_error":"fail_open"}` {
		t.Fatalf("hooks %+v", got)
	}
	var metadata map[string]any
	if err := json.Unmarshal(got[0].Metadata, &metadata); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"internal": true, "guidance": w.shim.guidance()}, metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}
