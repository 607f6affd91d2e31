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
	place, err := newWorkplace(home, request)
	if err != nil {
		place.remove()
		return failed(wire.Failf(wire.BadRequest, "preparing the program: %v", err))
	}
	defer place.remove()
	return execute(home, interpreter, place, request)
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
	return nil
}

func execute(home folder, interpreter string, place workplace, request wire.RunRequest) wire.Reply {
	timeout := time.Duration(request.TimeoutMs) * time.Millisecond
	stdout := newCapture(positiveOr(request.StdoutLimit, defaultStreamLimit))
	stderr := newCapture(positiveOr(request.StderrLimit, defaultStreamLimit))
	started, err := program{
		command: programCommand(home, interpreter, request.Language, place.program, request.Args),
		dir:     place.folder, env: environment(home, request.Bus, request.Env), stdin: request.Stdin,
		envelope: runEnvelope(place.program, timeout), stdout: stdout, stderr: stderr,
	}.start()
	if err != nil {
		return failed(wire.Failf(wire.Internal, "starting the interpreter: %v", err))
	}
	result, timedOut := started.awaitExit(timeout)
	duration := time.Since(started.begun)
	if timedOut || !request.KeepProcesses {
		started.kill()
	}
	started.finish()
	reply := runReply(home, started, result, timedOut)
	reply.Run.Stdout, reply.Run.StdoutTruncated = stdout.text()
	reply.Run.Stderr, reply.Run.StderrTruncated = stderr.text()
	reply.DurationMs = duration.Milliseconds()
	return reply
}

func runEnvelope(program string, timeout time.Duration) []byte {
	deadline := wire.CallContext{DeadlineMs: time.Now().Add(timeout).UnixMilli()}
	// Strings and numbers only: this cannot fail.
	head, _ := wire.Marshal(envelope{Mode: "run", Source: program, Context: deadline})
	return append(head, '\n')
}

// awaitExit waits for the program itself; its result arrives on the way.
func (s *process) awaitExit(timeout time.Duration) (result *frame, timedOut bool) {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	exited, frames := s.exited, s.frames
	for frames != nil || exited != nil {
		select {
		case next, open := <-frames:
			if !open {
				frames = nil
			} else if result == nil && next.kind != frameDone {
				result = &next
			}
		case <-exited:
			exited = nil
			s.lastFrames()
		case <-deadline.C:
			return result, exited != nil
		}
	}
	return result, false
}

func runReply(home folder, ended *process, result *frame, timedOut bool) wire.Reply {
	reply := wire.Reply{}
	outcome := &wire.Run{TimedOut: timedOut, ExitCode: -1}
	if !timedOut {
		outcome.ExitCode, outcome.Signal = ended.end()
	}
	if result != nil {
		reply = resultOrFailure(home, *result)
	}
	// A program whose result cannot be represented has still run.
	if reply.Error != nil {
		outcome.ResultError = reply.Error.Error()
		reply.Error = nil
	}
	reply.Run = outcome
	return reply
}

func resultOrFailure(home folder, result frame) wire.Reply {
	if result.kind == frameFailure {
		return failed(failureFrom(result.body))
	}
	return resultFrom(home, result)
}
