package runner

import (
	"context"
	"errors"
	"fmt"
)

// AgentError says that the agent did not answer as it should: it was killed, its
// output was cut, or it is not the agent.
type AgentError struct {
	ExitCode int
	// Stderr is the end of what it printed.
	Stderr string
	Err    error
}

func (e *AgentError) Error() string {
	text := fmt.Sprintf("the agent exited with %d and gave no reply: %v", e.ExitCode, e.Err)
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// Unwrap returns what is wrong with the reply.
func (e *AgentError) Unwrap() error { return e.Err }

// ResultLostError says that the guest's program ran to its end but its result
// could not be fetched. What went wrong is deliberately not unwrapped, but for
// the context's end: a sandbox that vanished after the program has run must not
// look like one that never took it, which callers may try again elsewhere.
type ResultLostError struct{ Err error }

func (e *ResultLostError) Error() string { return "fetching the result: " + e.Err.Error() }

// Is lets errors.Is see that the context ended.
func (e *ResultLostError) Is(target error) bool {
	return (target == context.DeadlineExceeded || target == context.Canceled) && errors.Is(e.Err, target)
}

const maxTail = 500

func tail(b []byte) string {
	if len(b) <= maxTail {
		return string(b)
	}
	start := len(b) - maxTail
	for start < len(b) && b[start]&0xC0 == 0x80 {
		start++
	}
	return string(b[start:])
}
