package main

import (
	"path/filepath"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// defaultStreamLimit lets one stream alone fill a reply; fit shortens the rest.
const defaultStreamLimit = wire.MaxBodyBytes

// run runs a whole program and returns whatever it did; only a broken guest or
// request is an error (contracts/code-runner.md §1).
func run(home folder, request wire.RunRequest) wire.Reply {
	if failure := checkRun(request); failure != nil {
		return failed(failure)
	}
	interpreter, failure := findInterpreter(request.Language)
	if failure == nil {
		failure = ensureHosts(home)
	}
	if failure != nil {
		return failed(failure)
	}
	held, failure := claimToken(home, request.Token)
	if failure != nil {
		return neverStarted(failure)
	}
	defer held.release()
	place, err := newWorkplace(home, request)
	defer place.remove()
	if err != nil {
		return failed(wire.Failf(wire.BadRequest, "preparing the program: %v", err))
	}
	return execute(home, interpreter, held, place, request)
}

func checkRun(request wire.RunRequest) *wire.Failure {
	switch {
	case request.Language.Extension() == "":
		return wire.Failf(wire.BadRequest, "language must be %q or %q", wire.Node, wire.Python)
	case request.Source == "":
		return wire.Failf(wire.BadRequest, "source is empty")
	case request.TimeoutMs <= 0:
		return wire.Failf(wire.BadRequest, "timeoutMs must be at least 1")
	case request.Folder != "" && !filepath.IsAbs(request.Folder):
		return wire.Failf(wire.BadRequest, "folder must be absolute")
	}
	if err := checkFiles(request.Files); err != nil {
		return wire.Failf(wire.BadRequest, "%v", err)
	}
	return nil
}

func execute(home folder, interpreter string, held *claim, place *workplace, request wire.RunRequest) wire.Reply {
	timeout := time.Duration(request.TimeoutMs) * time.Millisecond
	done, failure := job{
		program: program{
			command: programCommand(home, interpreter, request.Language, place.program, request.Args),
			dir:     place.folder, env: environment(home, request.Bus, request.Env), stdin: request.Stdin,
			envelope: runEnvelope(place.program, timeout),
		},
		timeout:       timeout,
		stdoutLimit:   positiveOr(request.StdoutLimit, defaultStreamLimit),
		stderrLimit:   positiveOr(request.StderrLimit, defaultStreamLimit),
		keepProcesses: request.KeepProcesses, claim: held,
	}.do()
	if failure != nil {
		return failed(failure)
	}
	return runReply(home, done)
}

func runEnvelope(program string, timeout time.Duration) []byte {
	deadline := newHandlerContext(wire.CallContext{}, timeout)
	// Strings and numbers only: this cannot fail.
	head, _ := wire.Marshal(envelope{Mode: "run", Source: program, Context: deadline})
	return append(head, '\n')
}

func runReply(home folder, done finished) wire.Reply {
	reply := wire.Reply{}
	if done.result != nil {
		reply = resultOrFailure(home, *done.result)
	}
	// A program whose result cannot be represented has still run.
	if reply.Error != nil {
		done.run.ResultError = reply.Error.Error()
		reply.Error = nil
	}
	reply.Run = done.run
	reply.DurationMs = done.duration.Milliseconds()
	return reply
}

func resultOrFailure(home folder, result frame) wire.Reply {
	if result.kind == frameFailure {
		return failed(failureFrom(result.body))
	}
	return resultFrom(home, result)
}
