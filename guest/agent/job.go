package main

import (
	"os"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// exitWait is less than the 2 s that the operator waits for the agent's own answer.
const exitWait = 1500 * time.Millisecond

// job is one command whose streams, exit and result make a wire.Run.
type job struct {
	program
	timeout       time.Duration
	stdoutLimit   int
	stderrLimit   int
	keepProcesses bool
	claim         *claim
}

// ending says what ended a program that did not end by itself.
type ending int

const (
	endedItself ending = iota
	endedByDeadline
	endedByCancel
)

// finished is what became of a job.
type finished struct {
	run      *wire.Run
	result   *frame
	duration time.Duration
}

func (j job) do() (finished, *wire.Failure) {
	stdout, stderr := newCapture(j.stdoutLimit), newCapture(j.stderrLimit)
	j.stdout, j.stderr = stdout, stderr
	killsBefore := outOfMemoryKills(vmstat)
	started, err := j.start()
	if err != nil {
		return finished{}, wire.Failf(wire.Internal, "starting %s: %v", j.command[0], err)
	}
	result, how := started.awaitExit(j.timeout, j.claim.stop)
	duration := time.Since(started.begun)
	if how != endedItself || !j.keepProcesses {
		started.kill()
	}
	started.finish()
	run := started.outcome(how)
	run.OutOfMemory = run.Signal == signalName(syscall.SIGKILL) && outOfMemoryKills(vmstat) > killsBefore
	run.Stdout, run.StdoutTruncated = stdout.text()
	run.Stderr, run.StderrTruncated = stderr.text()
	return finished{run: run, result: result, duration: duration}, nil
}

// awaitExit waits for the program itself; its result arrives on the way. Once the
// host has said that the program is at its end, the interpreter gets exitWait
// beyond the deadline, once, to be gone: that may take it long on a busy machine.
func (s *process) awaitExit(timeout time.Duration, stop <-chan os.Signal) (*frame, ending) {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	var result *frame
	var done, late bool
	exited, frames := s.exited, s.frames
	for frames != nil || exited != nil {
		select {
		case next, open := <-frames:
			switch {
			case !open:
				frames = nil
			case next.kind == frameDone:
				done = true
			case result == nil && next.isResult():
				result = &next
			}
		case <-exited:
			exited = nil
			s.lastFrames()
		case <-stop:
			return result, unlessExited(exited, endedByCancel)
		case <-deadline.C:
			if !done || late {
				return result, unlessExited(exited, endedByDeadline)
			}
			late = true
			deadline.Reset(exitWait)
		}
	}
	return result, endedItself
}

// unlessExited: a program that has exited already, so that only its last frames
// were awaited, has ended by itself.
func unlessExited(exited <-chan struct{}, how ending) ending {
	if exited == nil {
		return endedItself
	}
	return how
}

func (s *process) outcome(how ending) *wire.Run {
	run := &wire.Run{ExitCode: -1, TimedOut: how == endedByDeadline, Canceled: how == endedByCancel}
	if how == endedItself {
		run.ExitCode, run.Signal = s.end()
	}
	return run
}

// neverStarted is the reply for a program that was canceled before its start;
// any other failure is an error.
func neverStarted(failure *wire.Failure) wire.Reply {
	if failure.Kind == wire.Canceled {
		return wire.Reply{Run: &wire.Run{ExitCode: -1, Canceled: true}}
	}
	return failed(failure)
}
