package wire

import (
	"encoding/json"
	"fmt"
)

// Reply answers one request. Exactly one of Error, or what the subcommand
// promises, is set; Logs and DurationMs may accompany both.
type Reply struct {
	// result: the handler's or program's JSON value; see also ResultFile.
	Result json.RawMessage `json:"result,omitempty"`
	// resultFile: where the result is, if it did not fit the reply.
	ResultFile *ResultFile `json:"resultFile,omitempty"`
	Error      *Failure    `json:"error,omitempty"`
	// logs: what a handler printed: each stream in order, the two interleaved
	// about as they were written.
	Logs          string `json:"logs,omitempty"`
	LogsTruncated bool   `json:"logsTruncated,omitempty"`
	Run           *Run   `json:"run,omitempty"`
	Init          *Init  `json:"init,omitempty"`
	// durationMs: wall-clock time from interpreter start, or from a waiting one's
	// taking the call, to result or exit. A wait for one that is being made counts.
	DurationMs int64 `json:"durationMs,omitempty"`
	// start: how the process of a call came about, such as StartCold; empty if
	// there was none, and for other commands.
	Start string `json:"start,omitempty"`
}

// ResultFile points at a result left in the guest, to be read and discarded.
// The agent removes forgotten ones after 15 minutes.
type ResultFile struct {
	Path string `json:"path"`
	// size: bytes.
	Size int64 `json:"size"`
	// sha256: lower-case hexadecimal digest of the file's bytes.
	SHA256 string `json:"sha256"`
}

// Run is the outcome of a whole program.
type Run struct {
	Stdout          string `json:"stdout"`
	Stderr          string `json:"stderr"`
	StdoutTruncated bool   `json:"stdoutTruncated,omitempty"`
	StderrTruncated bool   `json:"stderrTruncated,omitempty"`
	// exitCode: 128 + signal when killed; -1 when TimedOut or Canceled.
	ExitCode int `json:"exitCode"`
	// signal: name of the signal that ended the program, if one did.
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timedOut,omitempty"`
	// canceled: a CancelRequest ended the program, or kept it from starting.
	Canceled bool `json:"canceled,omitempty"`
	// outOfMemory: the kernel killed the program because the guest's memory was
	// used up.
	OutOfMemory bool `json:"outOfMemory,omitempty"`
	// resultError: why the program's result could not be represented.
	ResultError string `json:"resultError,omitempty"`
}

// Init describes a prepared guest.
type Init struct {
	// agentDigest: SHA-256 of the agent's executable.
	AgentDigest string `json:"agentDigest"`
	// nodeVersion, pythonVersion: like "20.20.2"; empty if not installed or not
	// probed.
	NodeVersion   string `json:"nodeVersion"`
	PythonVersion string `json:"pythonVersion"`
	SDK           SDK    `json:"sdk"`
	// overlay: every shared folder is now private.
	Overlay bool `json:"overlay"`
	// overlayError: why not, if it was asked for and could not be had.
	OverlayError string `json:"overlayError,omitempty"`
}

// SDK lists the bus SDK version per language; empty means not available or, for
// Python, not probed.
type SDK struct {
	Node   string `json:"node"`
	Python string `json:"python"`
}

// FailureKind says which part failed, so that callers need not read messages.
type FailureKind string

const (
	// BadRequest: the agent refused the request; nothing was started.
	BadRequest FailureKind = "BadRequest"
	// Thrown: the handler raised an error.
	Thrown FailureKind = "Thrown"
	// LoadFailed: the source does not parse or raised while loading.
	LoadFailed FailureKind = "LoadFailed"
	// HandlerMissing: the source defines no callable of the wanted name.
	HandlerMissing FailureKind = "HandlerMissing"
	// NotSerializable: the result has no JSON form.
	NotSerializable FailureKind = "NotSerializable"
	// ResultTooLarge: the result exceeds MaxResultBytes.
	ResultTooLarge FailureKind = "ResultTooLarge"
	// NoResult: the interpreter ended, or can make no progress, without a result.
	NoResult FailureKind = "NoResult"
	// TimedOut: the deadline passed before there was a result.
	TimedOut FailureKind = "TimedOut"
	// Canceled: a CancelRequest ended the call, or kept it from starting.
	Canceled FailureKind = "Canceled"
	// NotPlanted: the source to call is not in this guest.
	NotPlanted FailureKind = "NotPlanted"
	// InterpreterMissing: the guest has no interpreter for the language.
	InterpreterMissing FailureKind = "InterpreterMissing"
	// Internal: the agent itself failed.
	Internal FailureKind = "Internal"
)

// Failure is the uniform error of both languages
// (contracts/code-runner.md §19.3, X19 and X20).
//
//nolint:errname // It is a part of Reply first, and named for that.
type Failure struct {
	Kind FailureKind `json:"kind"`
	// type: the language's own exception type, such as "TypeError".
	Type    string `json:"type"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
	// line: line of the source, from 1; 0 when unknown.
	Line int `json:"line,omitempty"`
	// exitCode, signal: how the interpreter ended, for NoResult.
	ExitCode *int   `json:"exitCode,omitempty"`
	Signal   string `json:"signal,omitempty"`
}

// Error implements error.
func (f *Failure) Error() string {
	if f.Type == "" {
		return f.Message
	}
	return f.Type + ": " + f.Message
}

// Failf makes a failure of the given kind, its type named after the kind.
func Failf(kind FailureKind, format string, args ...any) *Failure {
	return &Failure{Kind: kind, Type: string(kind), Message: fmt.Sprintf(format, args...)}
}
