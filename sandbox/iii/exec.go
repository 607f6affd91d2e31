package iii

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// execRequest is that of contracts/iii-sandbox.md §3.2 with a whole vector,
// which no server splits or gives to a shell.
type execRequest struct {
	SandboxID string            `json:"sandbox_id"`
	Argv      []string          `json:"argv"`
	Stdin     string            `json:"stdin,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	TimeoutMs int64             `json:"timeout_ms"`
	// Workdir is always sent: what its default is differs between daemons.
	Workdir string `json:"workdir"`
}

type execResponse struct {
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	ExitCode   *int   `json:"exit_code"`
	DurationMs int64  `json:"duration_ms"`
}

// unknownExit stands for an exit code the daemon does not know.
const unknownExit = -1

// Exec implements sandbox.Provider. Without a timeout that of the daemon holds,
// 300 s. The whole request must fit a frame of the bus (16 MiB, of which base64
// takes a third of stdin): larger input goes by WriteFile.
func (p *Provider) Exec(ctx context.Context, id sandbox.ID, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
	timeout := req.Timeout
	if timeout <= 0 {
		timeout = defaultExecTimeout
	}
	answer, err := invoke[execResponse](ctx, p, timeout+execAllowance, "sandbox::exec", changes, execRequest{
		SandboxID: id.Reveal(), Argv: req.Argv, Stdin: base64.StdEncoding.EncodeToString(req.Stdin), Env: req.Env,
		TimeoutMs: max(1, timeout.Milliseconds()), Workdir: orRoot(req.Workdir),
	})
	if err != nil {
		return sandbox.ExecResult{}, err
	}
	return answer.result(), nil
}

func (r execResponse) result() sandbox.ExecResult {
	code := unknownExit
	if r.ExitCode != nil {
		code = *r.ExitCode
	}
	return sandbox.ExecResult{
		Stdout: []byte(r.Stdout), Stderr: []byte(r.Stderr), ExitCode: code,
		Duration: time.Duration(r.DurationMs) * time.Millisecond,
	}
}

func orRoot(workdir string) string {
	if workdir == "" {
		return "/"
	}
	return workdir
}
