package prepare

import (
	"errors"
	"strings"
)

// Step is a part of a preparation, named after its field in the spec.
type Step string

// The steps, in order.
const (
	StepFiles    Step = "files"
	StepPackages Step = "packages"
	StepSetup    Step = "setup"
)

// Error says that the plan itself failed: a file that cannot be written, a
// package that cannot be installed, a command that failed. It holds no secret.
type Error struct {
	Step Step
	// Subject is the file, the command, or the packages that the installer named,
	// which may be none.
	Subject string
	// Problem is what happened, Output the end of what was printed.
	Problem, Output string
}

func (e *Error) Error() string {
	text := string(e.Step)
	if e.Subject != "" {
		text += " " + e.Subject
	}
	text += ": " + e.Problem
	if output := strings.TrimSpace(e.Output); output != "" {
		text += ": " + output
	}
	return text
}

// AsError returns the Error in err, or nil.
func AsError(err error) *Error {
	var target *Error
	if errors.As(err, &target) {
		return target
	}
	return nil
}
