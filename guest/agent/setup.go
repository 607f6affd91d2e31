package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	shell = "/bin/sh"
	// upkeepOutput is what is kept of each stream of an installation or a setup
	// command; it ends up in conditions and logs, not with a caller.
	upkeepOutput = 32 << 10
)

// setup runs one command line. Like run, it reports a failing command in the
// reply; an error says that it did not run.
func setup(home folder, request wire.SetupRequest) wire.Reply {
	dir, failure := setupFolder(request)
	if failure != nil {
		return failed(failure)
	}
	held, failure := claimToken(home, request.Token)
	if failure != nil {
		return neverStarted(failure)
	}
	defer held.release()
	done, failure := job{
		program:     program{command: []string{shell, "-c", request.Command}, dir: dir, env: environment(home, wire.Bus{}, request.Env)},
		timeout:     time.Duration(request.TimeoutMs) * time.Millisecond,
		stdoutLimit: upkeepOutput, stderrLimit: upkeepOutput,
		keepProcesses: true, claim: held,
	}.do()
	if failure != nil {
		return failed(failure)
	}
	tellSupervisor(home, askRenew, nil)
	return wire.Reply{Run: done.run, DurationMs: done.duration.Milliseconds()}
}

func setupFolder(request wire.SetupRequest) (string, *wire.Failure) {
	switch {
	case request.Command == "":
		return "", wire.Failf(wire.BadRequest, "command is empty")
	case request.TimeoutMs <= 0:
		return "", wire.Failf(wire.BadRequest, "timeoutMs must be at least 1")
	case request.Folder == "":
		return "/", nil
	case !filepath.IsAbs(request.Folder):
		return "", wire.Failf(wire.BadRequest, "folder must be absolute")
	}
	if err := os.MkdirAll(request.Folder, 0o755); err != nil {
		return "", wire.Failf(wire.BadRequest, "making the folder: %v", err)
	}
	return request.Folder, nil
}
