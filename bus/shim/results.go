package shim

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Results hands code and results past the API server, in memory.
type Results interface {
	// Offer keeps code for the run whose transient source names its digest (64
	// hexadecimal digits). forget takes the offer back; the same code may be
	// offered several times at once.
	Offer(sha256 string, code []byte) (forget func())
	// Await waits for the end of the run with this UID, which may have ended
	// already, and returns its whole result. It returns ctx.Err() when ctx ends
	// first. A run that was deleted before its end is a Failure of code
	// FailureCancelled.
	Await(ctx context.Context, uid types.UID) (Outcome, error)
}

// Outcome is how a run ended: Failure, or everything else.
type Outcome struct {
	// Stdout and Stderr are verbatim, or shortened and marked as such.
	Stdout, Stderr string
	// ExitCode is -1 if the program did not exit by itself.
	ExitCode int
	Success  bool
	// Duration of the program, without boot and queueing.
	Duration time.Duration
	// Result is the program's value, nil when it has none.
	Result json.RawMessage
	// Truncated… say that a part is not whole.
	TruncatedStdout, TruncatedStderr, TruncatedResult bool
	Timings                                           v1alpha1.RunTimings
	Failure                                           *Failure
}

// FailureCode is why a run has no result.
type FailureCode string

// The codes of a Failure.
const (
	// FailureTimeout: the program passed its deadline.
	FailureTimeout FailureCode = "Timeout"
	// FailureCapacity: the daemon takes no further sandbox, or a queue is full.
	FailureCapacity FailureCode = "Capacity"
	// FailureGone: the sandbox was lost under the program.
	FailureGone FailureCode = "Gone"
	// FailureExhausted: the sandbox ran out of memory or disk under the program.
	FailureExhausted FailureCode = "Exhausted"
	// FailureInvalid: what the caller asked for cannot be.
	FailureInvalid FailureCode = "Invalid"
	// FailureEngine: anything else that is not the program's fault.
	FailureEngine FailureCode = "Engine"
	// FailureCancelled: the run was cancelled or deleted.
	FailureCancelled FailureCode = "Cancelled"
)

// Failure is why a run has no result. It may travel in an Outcome or as the
// error of Await.
//
//nolint:errname // it is a part of an Outcome first, and an error in second place
type Failure struct {
	Code FailureCode
	// Message is for the caller; ids are scrubbed from it once more on its way.
	Message string
	// PartialStdout and PartialStderr are what the program printed before.
	PartialStdout, PartialStderr string
}

func (f *Failure) Error() string { return string(f.Code) + ": " + f.Message }
