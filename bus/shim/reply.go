package shim

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	// maxReplyBytes bounds an encoded run response (design rule 7).
	maxReplyBytes = 900 << 10
	// maxPartialBytes bounds each stream in the details of an error.
	maxPartialBytes = 4 << 10
	cutMark         = "\n[… output shortened …]\n"
)

// runResponse is contracts/code-runner.md §4.1; result, truncated and timings
// are additions.
type runResponse struct {
	RuntimeID  *string         `json:"runtime_id,omitempty"`
	Stdout     string          `json:"stdout"`
	Stderr     string          `json:"stderr"`
	ExitCode   int64           `json:"exit_code"`
	Success    bool            `json:"success"`
	DurationMS uint64          `json:"duration_ms"`
	Result     json.RawMessage `json:"result,omitempty"`
	Truncated  bool            `json:"truncated,omitempty"`
	Timings    *runTimings     `json:"timings,omitempty"`
}

// runTimings are the stages of a run in milliseconds.
type runTimings struct {
	QueueMS   int64 `json:"queue_ms"`
	BootMS    int64 `json:"boot_ms"`
	PlantMS   int64 `json:"plant_ms"`
	ExecMS    int64 `json:"exec_ms"`
	CleanupMS int64 `json:"cleanup_ms"`
}

func respond(o Outcome, runtimeID *string) runResponse {
	response := runResponse{
		RuntimeID:  runtimeID,
		Stdout:     o.Stdout,
		Stderr:     o.Stderr,
		ExitCode:   int64(o.ExitCode),
		Success:    o.Success,
		DurationMS: uint64(max(0, o.Duration.Milliseconds())),
		Result:     o.Result,
		Truncated:  o.TruncatedStdout || o.TruncatedStderr || o.TruncatedResult,
		Timings:    timingsOf(o.Timings),
	}
	response.fit()
	return response
}

func timingsOf(t v1alpha1.RunTimings) *runTimings {
	if t == (v1alpha1.RunTimings{}) {
		return nil
	}
	return &runTimings{
		QueueMS:   t.QueueMilliseconds,
		BootMS:    t.BootMilliseconds,
		PlantMS:   t.PlantMilliseconds,
		ExecMS:    t.ExecMilliseconds,
		CleanupMS: t.CleanupMilliseconds,
	}
}

// fit shortens a response that is too large for the bus: the guest bounds the
// streams, but escapes can make one byte six. What is larger is halved first;
// a result is dropped whole, for half a value is none, and so is one that is not
// JSON.
func (r *runResponse) fit() {
	if len(r.Result) > maxReplyBytes/2 || r.Result != nil && !json.Valid(r.Result) {
		r.Result, r.Truncated = nil, true
	}
	for encodedBytes(*r) > maxReplyBytes {
		longer := &r.Stdout
		if len(r.Stderr) > len(r.Stdout) {
			longer = &r.Stderr
		}
		*longer, r.Truncated = halve(*longer), true
	}
}

// halve keeps 60 % of the new length from the head and 40 % from the tail
// (contracts/code-runner.md §18 K12).
func halve(text string) string {
	half := len(text) / 2
	head := strings.TrimSuffix(cut(text, half*6/10), "…")
	tail := strings.TrimPrefix(cutFront(text, half*4/10), "…")
	return head + cutMark + tail
}

func encodedBytes(r runResponse) int {
	data, err := encode(r)
	if err != nil {
		// Nothing in a fitted response can fail to encode; answering reports it.
		return 0
	}
	return len(data)
}

// failed is what a caller is told about a run without an outcome
// (contracts/code-runner.md §5.2, §5.3). runtimeID is nil unless this caller
// sent it.
func failed(err error, runtimeID *string) error {
	var failure *Failure
	if !errors.As(err, &failure) {
		return err
	}
	switch failure.Code {
	case FailureTimeout:
		return &callError{code: codeTimeout, message: timeoutMessage, detail: partialOutput(failure)}
	case FailureCapacity:
		return &callError{code: codeCapacity, message: orElse(failure.Message, "no further sandbox can be made now; try again later")}
	case FailureExhausted:
		return &callError{code: codeExhausted, message: orElse(failure.Message, exhaustedMessage), detail: partialOutput(failure)}
	case FailureInvalid:
		return invalid("%s", orElse(failure.Message, "the run cannot be as it was asked for"))
	case FailureGone:
		return lost(runtimeID)
	case FailureCancelled:
		return engineError("the run was cancelled")
	default:
		return engineError("%s", orElse(failure.Message, "the run failed for a reason that is not the program's"))
	}
}

// timeoutMessage is one fixed sentence (§5.1).
const timeoutMessage = "the program passed its deadline and was stopped"

// exhaustedMessage is for a limit that the same program would hit again
// (contracts/code-runner.md §20).
const exhaustedMessage = "the sandbox ran out of memory or disk; use less of it"

// lost keeps an id that the caller does not know out of the text (§5.3).
func lost(runtimeID *string) error {
	if runtimeID == nil {
		return engineError("the VM went away during the run; try again")
	}
	return &callError{code: codeExpired, message: "the VM behind runtime_id " + cut(*runtimeID, maxEchoedIDBytes) +
		" is gone, and its files and functions with it; run with keep: true for a new runtime, which starts with an empty file system"}
}

// partialOutput is in the details, because the message is fixed.
func partialOutput(f *Failure) string {
	var text strings.Builder
	for _, stream := range []struct{ name, text string }{{"stdout", f.PartialStdout}, {"stderr", f.PartialStderr}} {
		if stream.text != "" {
			text.WriteString(stream.name + " until then:\n" + scrub(cutFront(stream.text, maxPartialBytes-len("…"))) + "\n")
		}
	}
	return text.String()
}

func orElse(remote, fallback string) string {
	if remote == "" {
		return fallback
	}
	return inCallersWords(remote)
}

// inCallersWords leaves out where the object has what the caller calls by the
// field alone.
func inCallersWords(text string) string {
	text = strings.TrimPrefix(scrub(text), "spec: ")
	return strings.TrimPrefix(strings.TrimPrefix(text, "spec."), "runtime.")
}
