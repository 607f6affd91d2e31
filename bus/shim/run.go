package shim

import (
	"context"
	"time"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// run executes a program in one of three places: a sandbox of its own, a new
// runtime that is kept, or a runtime that was kept before. Whatever the program
// does is in the response; errors are invalid requests and broken
// infrastructure (contracts/code-runner.md §1, §4.1).
func (s *Shim) run(ctx context.Context, r runRequest) (runResponse, error) {
	if err := checkCode("code", r.code, "it needs a whole program"); err != nil {
		return runResponse{}, err
	}
	timeout := s.programTimeout(r.timeoutMilliseconds)
	if err := r.checkInput(); err != nil {
		return runResponse{}, err
	}
	ctx, leave := s.callers.enter(ctx)
	defer leave()
	switch {
	case r.runtimeID != nil:
		return s.runInKept(ctx, r, timeout)
	case r.language == "":
		return runResponse{}, invalid(`lang must be given because no runtime_id was sent; use "node" or "python"`)
	case r.keep:
		return s.runAndKeep(ctx, r, timeout)
	default:
		return s.runOnce(ctx, r, timeout)
	}
}

// checkCode bounds code and sources in bytes.
func checkCode(field, code, hint string) error {
	if code == "" {
		return invalid("%s is empty; %s", field, hint)
	}
	if len(code) > v1alpha1.MaxSourceBytes {
		return invalid("%s has %d bytes; the limit is %d bytes (1 MiB)", field, len(code), v1alpha1.MaxSourceBytes)
	}
	return nil
}

// programTimeout is min(requested or default, maximum), so that a default above
// the maximum does not escape it (contracts/code-runner.md §8).
func (s *Shim) programTimeout(requested uint64) time.Duration {
	if requested == 0 {
		return min(s.DefaultTimeout, s.MaxTimeout)
	}
	// Compared in milliseconds, because the product might overflow.
	if requested >= uint64(s.MaxTimeout.Milliseconds()) {
		return s.MaxTimeout
	}
	return time.Duration(requested) * time.Millisecond
}

// runOnce leaves nothing behind: the run's controller destroys the sandbox
// before it hands out the result.
func (s *Shim) runOnce(ctx context.Context, r runRequest, timeout time.Duration) (runResponse, error) {
	guest := guestOfBus()
	guest.Packages = r.packages
	spec := v1alpha1.SandboxRunSpec{Language: r.language, Runtime: guest}
	outcome, err := s.execute(ctx, r.into(spec), r.code, timeout)
	if err != nil {
		err = failed(err, nil)
		s.tellFailed(r.language, nil, err)
		return runResponse{}, err
	}
	s.tellSettled(r.language, nil, outcome)
	return respond(outcome, nil), nil
}

// checkInput bounds what a program gets beside its code.
func (r runRequest) checkInput() error {
	if r.stdin != nil && len(*r.stdin) > maxStdinBytes {
		return invalid("stdin has %d bytes; the limit is %d", len(*r.stdin), maxStdinBytes)
	}
	if len(r.args) > maxListed {
		return invalid("args has %d entries; the limit is %d", len(r.args), maxListed)
	}
	for i, arg := range r.args {
		if len(arg) > maxArgBytes {
			return invalid("args[%d] has %d bytes; the limit is %d", i, len(arg), maxArgBytes)
		}
	}
	if r.runtimeID != nil && len(r.packages) > 0 {
		return invalid("packages are installed when a runtime is made; leave them out with runtime_id, or install them in code")
	}
	if err := r.check(true); err != nil {
		return err
	}
	return checkSize([]any{r.stdin, r.args, r.env, r.files}, "stdin, args, env and files")
}

// into adds a program's input to its run.
func (r runRequest) into(spec v1alpha1.SandboxRunSpec) v1alpha1.SandboxRunSpec {
	if r.stdin != nil {
		spec.Stdin = *r.stdin
	}
	spec.Args, spec.Env, spec.Files = r.args, r.variables(), r.files
	return spec
}

// guestOfBus is what every guest of a bus caller gets, as the original gives it
// (contracts/code-runner.md §14).
func guestOfBus() *v1alpha1.GuestSpec {
	return &v1alpha1.GuestSpec{Network: v1alpha1.AccessEnabled, BusAccess: v1alpha1.AccessEnabled}
}
