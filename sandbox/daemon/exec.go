package daemon

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"github.com/google/uuid"
	"golang.org/x/text/encoding/unicode"
)

const (
	// outputLimit bounds each stream of an exec, in bytes (§9).
	outputLimit = 1 << 20
	// shellFrame bounds command and environment, in bytes (§9).
	shellFrame = 4 << 20
	// defaultExecTimeoutMs is in milliseconds (§3.2).
	defaultExecTimeoutMs = 300_000
)

// execRequest is that of sandbox::exec (contracts/iii-sandbox.md §3.2).
type execRequest struct {
	SandboxID string       `json:"sandbox_id"`
	Cmd       string       `json:"cmd,omitempty" jsonschema_description:"Program, or a command line when args is empty. No shell runs."`
	Args      []string     `json:"args,omitempty"`
	Argv      []string     `json:"argv,omitempty" jsonschema_description:"Whole vector; excludes cmd and args."`
	Stdin     *string      `json:"stdin,omitempty" jsonschema_description:"Standard input in base64."`
	Env       *environment `json:"env,omitempty"`
	TimeoutMs *uint64      `json:"timeout_ms,omitempty" jsonschema_description:"Milliseconds until the process group is killed."`
	Workdir   *string      `json:"workdir,omitempty" jsonschema_description:"Absolute path in the guest."`
}

type execResponse struct {
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	ExitCode   *int   `json:"exit_code" jsonschema_description:"128 plus the signal of a killed program."`
	TimedOut   bool   `json:"timed_out"`
	DurationMs int64  `json:"duration_ms"`
	Success    bool   `json:"success"`
}

// exec runs a program. The order of refusals is S001, S002, S004, S003 (§3.3).
func (d *Daemon) exec(ctx context.Context, req execRequest) (execResponse, error) {
	spec, err := d.execSpec(req)
	if err != nil {
		return execResponse{}, err
	}
	e, err := d.registry.claimExec(req.SandboxID)
	if err != nil {
		return execResponse{}, err
	}
	defer d.registry.releaseExec(e)
	outcome, err := e.machine.Exec(ctx, spec)
	if err != nil {
		return execResponse{}, execFault(err, spec.Timeout)
	}
	return execAnswer(outcome), nil
}

func (d *Daemon) execSpec(req execRequest) (ExecSpec, error) {
	argv, err := commandLine(req.Cmd, req.Args, req.Argv)
	if err != nil {
		return ExecSpec{}, err
	}
	env := orDefault(req.Env, environment{})
	if err := errors.Join(env.check(), checkID(req.SandboxID), checkFrame(argv, env)); err != nil {
		return ExecSpec{}, err
	}
	stdin, err := base64.StdEncoding.DecodeString(orDefault(req.Stdin, ""))
	if err != nil {
		return ExecSpec{}, invalidRequest("stdin is not base64: %v", err)
	}
	return ExecSpec{
		Argv: argv, Stdin: stdin, Env: env.values, OutputLimit: outputLimit,
		Workdir: firstNonEmpty(orDefault(req.Workdir, ""), "/"),
		Timeout: d.execTimeout(req.TimeoutMs),
	}, nil
}

// execTimeout is min(asked or default, ceiling). A timeout of 0 ends at once;
// the least one is passed on, because 0 might mean none to a back end.
func (d *Daemon) execTimeout(asked *uint64) time.Duration {
	wanted := millis(orDefault(asked, defaultExecTimeoutMs))
	return max(min(wanted, d.config.maxExecTimeout()), time.Millisecond)
}

func checkID(id string) error {
	if _, err := uuid.Parse(id); err != nil {
		return invalidRequest("sandbox_id is not a UUID")
	}
	return nil
}

func checkFrame(argv []string, env environment) error {
	size := env.size()
	for _, word := range argv {
		size += len(word) + 1
	}
	if size > shellFrame {
		return invalidRequest("command and env take %d bytes, at most %d fit", size, shellFrame)
	}
	return nil
}

func execFault(err error, timeout time.Duration) error {
	switch {
	case errors.Is(err, ErrExecTimeout):
		return newFault(codeExecTimeout, "exec timed out after %d ms", timeout.Milliseconds())
	case errors.Is(err, ErrMachineGone):
		return goneFault()
	}
	return newFault(codeBoot, "VM boot failed: %v", err)
}

func execAnswer(outcome ExecOutcome) execResponse {
	code := outcome.ExitCode
	return execResponse{
		Stdout: lossy(outcome.Stdout), Stderr: lossy(outcome.Stderr), ExitCode: &code,
		DurationMs: outcome.Duration.Milliseconds(), Success: code == 0,
	}
}

// lossy replaces what is not UTF-8 as the original does: one replacement
// character for every maximal part of a broken sequence.
func lossy(output []byte) string {
	text, err := unicode.UTF8.NewDecoder().Bytes(output)
	if err != nil {
		return string(output)
	}
	return string(text)
}
