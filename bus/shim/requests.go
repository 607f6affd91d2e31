package shim

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// runRequest is contracts/code-runner.md §4.1.
type runRequest struct {
	code string
	// runtimeID is nil for a fresh sandbox.
	runtimeID *string
	// language is empty when absent.
	language v1alpha1.Language
	keep     bool
	// timeoutMilliseconds is 0 when absent.
	timeoutMilliseconds uint64
	// stdin is nil when absent.
	stdin *string
	args  []string
	surroundings
}

// registerRequest is contracts/code-runner.md §4.2.
type registerRequest struct {
	functionID, source string
	language           v1alpha1.Language
	// description is nil when absent.
	description *string
	// replace puts the code in the place of what a caller registered under the id.
	replace bool
	// timeoutMilliseconds is 0 when absent.
	timeoutMilliseconds uint64
	// The formats are JSON Schemas, nil when absent.
	requestFormat, responseFormat json.RawMessage
	surroundings
}

// teardownRequest is contracts/code-runner.md §4.3: one of the two. force also
// removes what kubectl made in the namespace.
type teardownRequest struct {
	runtimeID, namespace *string
	force                bool
}

func decodeRun(f *fields) runRequest {
	return runRequest{
		code:                f.text("code"),
		runtimeID:           f.optionalText("runtime_id"),
		language:            f.optionalLanguage("lang"),
		keep:                f.flag("keep"),
		timeoutMilliseconds: f.milliseconds("timeout_ms"),
		stdin:               f.optionalText("stdin"),
		args:                f.texts("args"),
		surroundings:        decodeSurroundings(f),
	}
}

func decodeRegister(f *fields) registerRequest {
	return registerRequest{
		functionID:          f.text("function_id"),
		source:              f.text("source"),
		language:            f.language("lang"),
		description:         f.optionalText("description"),
		replace:             f.flag("replace"),
		timeoutMilliseconds: f.milliseconds("timeout_ms"),
		requestFormat:       f.object("request_format"),
		responseFormat:      f.object("response_format"),
		surroundings:        decodeSurroundings(f),
	}
}

func decodeTeardown(f *fields) teardownRequest {
	return teardownRequest{
		runtimeID: f.optionalText("runtime_id"),
		namespace: f.optionalText("namespace"),
		force:     f.flag("force"),
	}
}

// The renderings below are all that logs and errors ever get to see of a
// request or response: no code, no source, no output, no runtime id (§3.7).
// Format covers every verb, %#v included.

const redacted = "(redacted)"

func (r runRequest) String() string {
	return fmt.Sprintf("run{lang: %s, keep: %t, timeout_ms: %d, code: %d bytes, runtime_id: %s, stdin: %s, args: %d, %s}",
		languageWords[r.language], r.keep, r.timeoutMilliseconds, len(r.code), presence(r.runtimeID), presence(r.stdin),
		len(r.args), r.surroundings)
}

func (r registerRequest) String() string {
	return fmt.Sprintf("register_function{function_id: %s, lang: %s, source: %d bytes, replace: %t, timeout_ms: %d, %s}",
		cut(r.functionID, v1alpha1.MaxFunctionIDBytes), languageWords[r.language], len(r.source), r.replace,
		r.timeoutMilliseconds, r.surroundings)
}

func (s surroundings) String() string {
	return fmt.Sprintf("env: %d, files: %d, packages: %d", len(s.env), len(s.files), len(s.packages))
}

func (r teardownRequest) String() string {
	namespace := "absent"
	if r.namespace != nil {
		namespace = cut(*r.namespace, maxPrefixBytes+len(separator))
	}
	return fmt.Sprintf("teardown{namespace: %s, runtime_id: %s, force: %t}", namespace, presence(r.runtimeID), r.force)
}

func (r runResponse) String() string {
	return fmt.Sprintf("run response{exit_code: %d, success: %t, stdout: %d bytes, stderr: %d bytes, runtime_id: %s}",
		r.ExitCode, r.Success, len(r.Stdout), len(r.Stderr), presence(r.RuntimeID))
}

func (r teardownResponse) String() string {
	return fmt.Sprintf("teardown response{unregistered: %d, runtime_id: %s}", len(r.Unregistered), presence(r.RuntimeID))
}

func (r runtimeRow) String() string {
	return fmt.Sprintf("runtime{reference: %s, lang: %s, registered_functions: %d}", r.Reference, r.Language, len(r.RegisteredFunctions))
}

func presence(secret *string) string {
	if secret == nil {
		return "absent"
	}
	return redacted
}

func (r runRequest) Format(w fmt.State, _ rune)       { _, _ = io.WriteString(w, r.String()) }
func (r registerRequest) Format(w fmt.State, _ rune)  { _, _ = io.WriteString(w, r.String()) }
func (r teardownRequest) Format(w fmt.State, _ rune)  { _, _ = io.WriteString(w, r.String()) }
func (r runResponse) Format(w fmt.State, _ rune)      { _, _ = io.WriteString(w, r.String()) }
func (r teardownResponse) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, r.String()) }
func (r runtimeRow) Format(w fmt.State, _ rune)       { _, _ = io.WriteString(w, r.String()) }
func (s surroundings) Format(w fmt.State, _ rune)     { _, _ = io.WriteString(w, s.String()) }

func (r runRequest) LogValue() slog.Value       { return slog.StringValue(r.String()) }
func (r registerRequest) LogValue() slog.Value  { return slog.StringValue(r.String()) }
func (r teardownRequest) LogValue() slog.Value  { return slog.StringValue(r.String()) }
func (r runResponse) LogValue() slog.Value      { return slog.StringValue(r.String()) }
func (r teardownResponse) LogValue() slog.Value { return slog.StringValue(r.String()) }
func (r runtimeRow) LogValue() slog.Value       { return slog.StringValue(r.String()) }
func (s surroundings) LogValue() slog.Value     { return slog.StringValue(s.String()) }
