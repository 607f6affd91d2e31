package shim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

func TestNew_refusals(t *testing.T) {
	w := newWorld(t)
	cases := map[string]func(*Options){
		"no bus":                           func(o *Options) { o.Bus = nil },
		"no client":                        func(o *Options) { o.Client = nil },
		"no results":                       func(o *Options) { o.Results = nil },
		"no fleet":                         func(o *Options) { o.Fleet = nil },
		"no index":                         func(o *Options) { o.FunctionIDIndex = "" },
		"no index of prefixes":             func(o *Options) { o.FunctionPrefixIndex = "" },
		"no index of runtimes":             func(o *Options) { o.FunctionRuntimeIndex = "" },
		"no namespace":                     func(o *Options) { o.Namespace = "" },
		"timeout below 1 ms":               func(o *Options) { o.DefaultTimeout = time.Microsecond },
		"maximum above that of the API":    func(o *Options) { o.MaxTimeout = 291 * time.Second },
		"negative idle time":               func(o *Options) { o.IdleTimeout = -1 },
		"idle time above that of the API":  func(o *Options) { o.IdleTimeout = 8 * 24 * time.Hour },
		"worker name that is no namespace": func(o *Options) { o.WorkerName = "a::b" },
		"worker name of capitals":          func(o *Options) { o.WorkerName = "Runner" },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			options := w.shim.Options
			spoil(&options)
			if _, err := New(options); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestRegister_functionsOnTheBus(t *testing.T) {
	w := newWorld(t)
	want := []string{
		"sandbox-code-runner::run", "sandbox-code-runner::teardown", "sandbox-code-runner::register_function",
		"sandbox-code-runner::list_runtimes", "sandbox-code-runner::inject-guidance", "sandbox-code-runner::on-worker-change",
	}
	if diff := cmp.Diff(want, w.bus.order); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	for id, f := range w.bus.functions {
		if f.Description == "" || len(f.RequestFormat) == 0 || len(f.ResponseFormat) == 0 {
			t.Errorf("%s lacks a description or a schema", id)
		}
	}
}

func TestWorkerName(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.WorkerName = "code-runner" })
	_, err := w.call(t.Context(), "run", `{}`)
	if err == nil {
		t.Fatal("accepted an empty request")
	}
	wantText(t, err.Error(), "code-runner::invalid_request: code is missing")
	for _, id := range []string{"code-runner::run", "code-runner::mine", "sandbox-code-runner::mine"} {
		if _, err := w.call(t.Context(), "register_function", registration(id)); err == nil {
			t.Errorf("%s was registered", id)
		}
	}
}

// TestSchemas holds the published schemas against what is answered: the same
// payloads are valid by schema and by function, apart from rules that a schema
// cannot say.
func TestSchemas_requests(t *testing.T) {
	cases := map[string]struct {
		function, payload string
		valid             bool
	}{
		"run needs only code":               {"run", `{"code":"1","runtime_id":"rt-x"}`, true},
		"run takes every field":             {"run", `{"code":"1","lang":"python","keep":true,"timeout_ms":5,"runtime_id":"x","other":[]}`, true},
		"run takes null as absent":          {"run", `{"code":"1","lang":"node","timeout_ms":null,"runtime_id":null}`, true},
		"run takes every addition":          {"run", `{"code":"1","lang":"node",` + everyInput + `,"packages":["a"]}`, true},
		"run takes null for every addition": {"run", `{"code":"1","lang":"node","stdin":null,"args":null,"env":null,"files":null,"packages":null}`, true},
		"run with a number in args":         {"run", `{"code":"1","lang":"node","args":[1]}`, false},
		"run with a file without a path":    {"run", `{"code":"1","lang":"node","files":[{"content":""}]}`, false},
		"run with a mode that is none":      {"run", `{"code":"1","lang":"node","files":[{"path":"a","content":"","mode":"7"}]}`, false},
		"register with every addition": {"register_function", `{"function_id":"a::b","source":"1","lang":"node","replace":true,"timeout_ms":1,
			"request_format":{"type":"object"},"response_format":null,"env":{"A":"1"},"files":[{"path":"/a","content":""}],"packages":["a"]}`, true},
		"register with a format of a list":  {"register_function", `{"function_id":"a::b","source":"1","lang":"node","request_format":[]}`, false},
		"register with null for replace":    {"register_function", `{"function_id":"a::b","source":"1","lang":"node","replace":null}`, false},
		"teardown with null for force":      {"teardown", `{"namespace":"x","force":null}`, false},
		"list takes anything":               {"list_runtimes", `{"x":1}`, true},
		"run without code":                  {"run", `{"lang":"node"}`, false},
		"run with another language":         {"run", `{"code":"1","lang":"ruby"}`, false},
		"run with null for keep":            {"run", `{"code":"1","lang":"node","keep":null}`, false},
		"run with a negative timeout":       {"run", `{"code":"1","lang":"node","timeout_ms":-1}`, false},
		"run with a fractional timeout":     {"run", `{"code":"1","lang":"node","timeout_ms":1.5}`, false},
		"run with an empty code":            {"run", `{"code":"","lang":"node"}`, false},
		"register with all":                 {"register_function", `{"function_id":"a::b","source":"1","lang":"node","description":null}`, true},
		"register without source":           {"register_function", `{"function_id":"a::b","lang":"node"}`, false},
		"register without an id":            {"register_function", `{"source":"1","lang":"node"}`, false},
		"register with null for lang":       {"register_function", `{"function_id":"a::b","source":"1","lang":null}`, false},
		"register with an id without colon": {"register_function", `{"function_id":"abcd","source":"1","lang":"node"}`, false},
		"teardown by id":                    {"teardown", `{"runtime_id":"x"}`, true},
		"teardown by namespace":             {"teardown", `{"namespace":"x","runtime_id":null}`, true},
		"teardown by both":                  {"teardown", `{"namespace":"x","runtime_id":"x"}`, false},
		"teardown by neither":               {"teardown", `{}`, false},
		"teardown by a number":              {"teardown", `{"namespace":1}`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := w.bus.functions["sandbox-code-runner::"+tc.function]
			if got := matches(t, f.RequestFormat, tc.payload); got != tc.valid {
				t.Errorf("schema says valid=%t, want %t", got, tc.valid)
			}
			_, err := w.call(t.Context(), tc.function, tc.payload)
			refused := err != nil && strings.HasPrefix(errorText(t, err), "invalid_request: ")
			if refused == tc.valid {
				t.Errorf("function answers %v, want valid=%t", err, tc.valid)
			}
		})
	}
}

func TestSchemas_responses(t *testing.T) {
	w := newWorld(t)
	w.results.set(settle(Outcome{
		Success: true, Result: json.RawMessage(`[1]`), TruncatedStdout: true, Timings: v1alpha1.RunTimings{ExecMilliseconds: 1},
	}))
	kept := w.mustCall("run", `{"code":"1","lang":"node","keep":true}`)
	responses := []struct {
		function string
		response map[string]any
	}{
		{"run", kept},
		{"run", w.mustCall("run", `{"code":"1","lang":"node"}`)},
		{"list_runtimes", w.mustCall("list_runtimes", `{}`)},
		{"inject-guidance", w.mustCall("inject-guidance", `{"generate":{"system_prompt":"x"}}`)},
		{"register_function", w.mustCall("register_function", registration("shop::price"))},
		{"teardown", w.mustCall("teardown", `{"namespace":"shop"}`)},
		{"teardown", w.mustCall("teardown", map[string]any{"runtime_id": kept["runtime_id"]})},
	}
	for _, r := range responses {
		schema := w.bus.functions["sandbox-code-runner::"+r.function].ResponseFormat
		data, err := json.Marshal(r.response)
		if err != nil {
			t.Fatal(err)
		}
		if !matches(t, schema, string(data)) {
			t.Errorf("response %s does not match the schema of %s", data, r.function)
		}
		var known spec.Schema
		if err := json.Unmarshal(schema, &known); err != nil {
			t.Fatal(err)
		}
		for field := range r.response {
			if _, documented := known.Properties[field]; !documented {
				t.Errorf("field %s of %s is not in its schema", field, r.function)
			}
		}
	}
}

func TestSchemas_areTypedDraft07(t *testing.T) {
	for _, f := range newWorld(t).shim.functions() {
		for _, data := range []json.RawMessage{f.RequestFormat, f.ResponseFormat} {
			var schema struct {
				Schema     string `json:"$schema"`
				Type       string `json:"type"`
				Properties map[string]struct {
					Type json.RawMessage `json:"type"`
				} `json:"properties"`
			}
			if err := json.Unmarshal(data, &schema); err != nil {
				t.Fatalf("%s: %v", f.ID, err)
			}
			if schema.Schema != "http://json-schema.org/draft-07/schema#" || schema.Type != "object" {
				t.Errorf("%s: %s of type %s", f.ID, schema.Schema, schema.Type)
			}
			for name, property := range schema.Properties {
				if len(property.Type) == 0 {
					t.Errorf("%s: %s is not typed", f.ID, name)
				}
			}
		}
	}
}

func matches(t *testing.T, schema json.RawMessage, payload string) bool {
	t.Helper()
	var parsed spec.Schema
	if err := json.Unmarshal(schema, &parsed); err != nil {
		t.Fatalf("schema: %v", err)
	}
	var value any
	if err := json.Unmarshal([]byte(payload), &value); err != nil {
		t.Fatalf("payload: %v", err)
	}
	return validate.NewSchemaValidator(&parsed, nil, "", strfmt.Default).Validate(value).IsValid()
}

func TestRedaction(t *testing.T) {
	const secret = "hush-hush"
	hidden := secret
	values := map[string]any{
		"run":               runRequest{code: secret, runtimeID: &hidden, language: v1alpha1.LanguageNode, keep: true},
		"register_function": registerRequest{functionID: "shop::price", source: secret, language: v1alpha1.LanguagePython},
		"teardown":          teardownRequest{runtimeID: &hidden},
		"run response":      runResponse{RuntimeID: &hidden, Stdout: secret, Stderr: secret, Result: json.RawMessage(`"` + secret + `"`)},
		"teardown response": teardownResponse{RuntimeID: &hidden},
		"row":               runtimeRow{RuntimeID: hidden, SandboxID: hidden, Language: "node"},
		"input": runRequest{stdin: &hidden, args: []string{secret}, surroundings: surroundings{
			env: map[string]string{"A": secret}, files: []v1alpha1.File{{Path: secret, Content: &hidden}}, packages: []string{secret}}},
	}
	shown := map[string]string{"run": "lang: node", "register_function": "shop::price", "teardown": "namespace: absent", "run response": "exit_code: 0", "teardown response": "unregistered: 0", "row": "lang: node", "input": "files: 1"}
	for name, value := range values {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", value)
			slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "value", value)
			texts := []string{log.String(), fmt.Sprint([]any{value})}
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				texts = append(texts, fmt.Sprintf(verb, value))
			}
			for _, text := range texts {
				if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
					t.Errorf("%q shows the secret", text)
				}
				wantText(t, text, shown[name])
			}
		})
	}
}

func TestLogsHideSecrets(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	w.callError("run", `{"code":"hush-hush","runtime_id":"rt-hush-hush"}`)
	w.drain()
	wantText(t, log.String(), "runtime_not_found", "(redacted)")
	if strings.Contains(log.String(), "hush") {
		t.Errorf("log %q shows a secret", log.String())
	}
}

func TestClose_refusesCallsAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.shim.Close()
	for function, payload := range map[string]string{
		"run":               `{"lang":"node","code":"1"}`,
		"register_function": `{"function_id":"shop::a","lang":"node","source":"1"}`,
		"teardown":          `{"namespace":"shop"}`,
	} {
		wantText(t, w.callError(function, payload), "engine: ", "shutting down")
	}
	if diff := cmp.Diff([]string{}, w.wrote()); diff != "" {
		t.Errorf("a refused call wrote (-want +got):\n%s", diff)
	}
}

func TestScrub(t *testing.T) {
	const id = "5B0f1111-2222-4333-8444-555555555555"
	cases := map[string]struct{ text, want string }{
		"a runtime id":             {"in rt-" + id + ".", "in (id)."},
		"a bare UUID":              {"VM " + id, "VM (id)"},
		"glued to other text":      {"/x/RT-" + id + "abc", "/x/(id)abc"},
		"other text stays":         {"S300: boot failed", "S300: boot failed"},
		"invalid text is replaced": {"a\xffb", "a\uFFFDb"},
		"long text is cut between characters": {
			strings.Repeat("é", maxMessageBytes), strings.Repeat("é", maxMessageBytes/2) + "…"},
	}
	for name, tc := range cases {
		if diff := cmp.Diff(tc.want, scrub(tc.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestKeyedLocks(t *testing.T) {
	var locks keyedLocks
	unlock, err := locks.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := locks.lock(t.Context(), "b")
	if err != nil {
		t.Fatalf("another key waits: %v", err)
	}
	other()
	ended, end := contextThatEnded(t)
	defer end()
	if _, err := locks.lock(ended, "a"); err == nil {
		t.Error("locked twice")
	}
	unlock()
	again, err := locks.lock(t.Context(), "a")
	if err != nil {
		t.Fatalf("still locked: %v", err)
	}
	again()
	if len(locks.locks) != 0 {
		t.Errorf("%d locks left", len(locks.locks))
	}
}
