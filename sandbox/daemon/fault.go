package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Codes of contracts/iii-sandbox.md §2.2 that this daemon sends.
const (
	codeInvalidRequest = "S001"
	codeNotFound       = "S002"
	codeExecBusy       = "S003"
	codeStopped        = "S004"
	codeImage          = "S100"
	codeRootMissing    = "S101"
	codeInstall        = "S102"
	codeExecTimeout    = "S200"
	codeFileArgument   = "S210"
	codeFileMissing    = "S211"
	codeFileType       = "S212"
	codeFileExists     = "S213"
	codeNotEmpty       = "S214"
	codePermission     = "S215"
	codeFileIO         = "S216"
	codePattern        = "S217"
	codeChannel        = "S218"
	codeBoot           = "S300"
	codeCapacity       = "S400"
)

// docsURL is the page whose anchors are named after the codes.
const docsURL = "https://github.com/sandbox-operator/sandbox-operator#"

// codeInfo is what is fixed for a code: its type, whether a repetition may
// succeed, and a hint for the caller (§2.2, §2.3).
type codeInfo struct {
	kind      string
	retryable bool
	note      string
}

var codeInfos = map[string]codeInfo{
	codeInvalidRequest: {"validation", false, "Correct the field named in the message and send the request again."},
	codeNotFound:       {"validation", false, "Sandboxes end when they are stopped or idle; create a new one."},
	codeExecBusy:       {"validation", false, "Wait for a running exec to end, then send the request again."},
	codeStopped:        {"validation", false, "The sandbox is being removed; create a new one."},
	codeImage:          {"config", false, "Use a name of sandbox::catalog::list that is also in image_allowlist."},
	codeRootMissing:    {"internal", false, "The image has no root file system on this machine."},
	codeInstall:        {"transient", true, "The image cannot be installed now; try again, or use another one."},
	codeExecTimeout:    {"execution", false, "Raise timeout_ms, up to the daemon's max_exec_timeout_ms."},
	codeFileArgument:   {"filesystem", false, ""},
	codeFileMissing:    {"filesystem", false, ""},
	codeFileType:       {"filesystem", false, ""},
	codeFileExists:     {"filesystem", false, ""},
	codeNotEmpty:       {"filesystem", false, ""},
	codePermission:     {"filesystem", false, ""},
	codeFileIO:         {"filesystem", false, ""},
	codePattern:        {"filesystem", false, ""},
	codeChannel:        {"transient", true, ""},
	codeBoot:           {"platform", false, "The guest did not start or has ended; create a new sandbox."},
	codeCapacity:       {"config", false, "Stop sandboxes that are not needed, or raise the limit in the configuration."},
}

// fault is a refusal with an S-code.
type fault struct {
	code    string
	message string
	// fix holds fields to merge into the same request, nil for none (§2.3).
	fix map[string]any
	// note replaces the code's own hint when it is not empty.
	note string
	// bare leaves the hint out.
	bare bool
}

func newFault(code, format string, args ...any) *fault {
	return &fault{code: code, message: fmt.Sprintf(format, args...)}
}

func invalidRequest(format string, args ...any) *fault {
	return newFault(codeInvalidRequest, "invalid request: "+format, args...)
}

func (f *fault) Error() string { return f.code + ": " + f.message }

// faultBody is the JSON text inside the error's message (§2.1).
type faultBody struct {
	Fix       map[string]any `json:"fix"`
	Retryable bool           `json:"retryable"`
	Code      string         `json:"code"`
	Type      string         `json:"type"`
	FixNote   *string        `json:"fix_note"`
	DocsURL   string         `json:"docs_url"`
	Message   string         `json:"message"`
}

func (f *fault) body() faultBody {
	info := codeInfos[f.code]
	body := faultBody{
		Fix: f.fix, Retryable: info.retryable, Code: f.code, Type: info.kind,
		DocsURL: docsURL + f.code, Message: f.message,
	}
	if note := firstNonEmpty(f.note, info.note); note != "" && !f.bare {
		body.FixNote = &note
	}
	return body
}

// remote is the fault as the bus carries it: the S-code is not the bus code but
// inside the text (§2.1).
func (f *fault) remote() *bus.RemoteError {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(f.body()); err != nil {
		return undecodable(err)
	}
	return &bus.RemoteError{
		Code:    protocol.CodeInvocationFailed,
		Message: "handler error: " + strings.TrimSuffix(text.String(), "\n"),
	}
}

// undecodable answers a request that never reached the S-codes (§2.1).
func undecodable(err error) *bus.RemoteError {
	return &bus.RemoteError{Code: protocol.CodeInvocationFailed, Message: "serialization error: " + err.Error()}
}

func firstNonEmpty(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
