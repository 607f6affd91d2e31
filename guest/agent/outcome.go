package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// outcome is what became of one handler.
type outcome struct {
	frame    *frame // the first result or failure, if there was one
	done     bool   // the host is through with the call
	timedOut bool
	canceled bool
	exitCode int
	signal   string
}

// awaitResult waits for the first result or failure, then for the host to say
// that it is done: late timers, threads and crashes change nothing any more
// (contracts/code-runner.md §19.3, X7). The caller kills the process.
func (s *process) awaitResult(timeout time.Duration, stop <-chan os.Signal) outcome {
	var result outcome
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	var linger <-chan time.Time
	exited := s.exited
	for {
		select {
		case next, open := <-s.frames:
			if !open {
				return s.withoutMore(result, deadline.C, stop)
			}
			if next.kind == frameDone {
				result.done = true
				return result
			}
			if result.frame == nil && next.isResult() {
				result.frame = &next
				linger = time.After(lingerWait)
			}
		case <-exited:
			exited = nil
			result.exitCode, result.signal = s.end()
			s.lastFrames()
		case <-linger:
			return result
		case <-stop:
			result.canceled = result.frame == nil
			return result
		case <-deadline.C:
			result.timedOut = result.frame == nil
			return result
		}
	}
}

// withoutMore handles a channel that has ended: the interpreter is gone or
// going, or has closed its descriptor and can deliver nothing any more.
func (s *process) withoutMore(result outcome, deadline <-chan time.Time, stop <-chan os.Signal) outcome {
	if result.frame != nil {
		return result
	}
	select {
	case <-s.exited:
		result.exitCode, result.signal = s.end()
	case <-stop:
		result.canceled = true
	case <-deadline:
		result.timedOut = true
	}
	return result
}

func (o outcome) reply(home folder, timeout time.Duration, errors *capture) wire.Reply {
	switch {
	case o.timedOut:
		return failed(wire.Failf(wire.TimedOut, "no result within %d ms", timeout.Milliseconds()))
	case o.canceled:
		return failed(wire.Failf(wire.Canceled, "canceled"))
	case o.frame == nil:
		return failed(o.noResult(errors))
	case o.frame.kind == frameFailure:
		return failed(withLastWords(failureFrom(o.frame.body), errors))
	default:
		return resultFrom(home, *o.frame)
	}
}

func (o outcome) noResult(errors *capture) *wire.Failure {
	code := o.exitCode
	how := fmt.Sprintf("exited with code %d", code)
	if o.signal != "" {
		how = "was killed by " + o.signal
	}
	message := "the interpreter " + how + " before there was a result"
	failure := &wire.Failure{Kind: wire.NoResult, Type: "ProcessExit", Message: message, ExitCode: &code, Signal: o.signal}
	return withLastWords(failure, errors)
}

// withLastWords adds the end of the error stream where no error tells the cause,
// whether the agent saw the interpreter end or its host still said why
// (contracts/code-runner.md §18, E07 and E08).
func withLastWords(failure *wire.Failure, errors *capture) *wire.Failure {
	if tail := errors.end(stderrTailBytes); tail != "" && failure.Kind == wire.NoResult {
		failure.Message += ": " + tail
	}
	return failure
}

func failureFrom(body []byte) *wire.Failure {
	var failure wire.Failure
	if err := json.Unmarshal(body, &failure); err != nil || failure.Kind == "" {
		return wire.Failf(wire.NoResult, "the interpreter reported an unreadable error")
	}
	failure.Message = limited(failure.Message)
	failure.Stack = limited(failure.Stack)
	return &failure
}

// limited bounds text that a guest chooses freely; the frame must hold it.
func limited(text string) string {
	const limit = 32 << 10
	if len(text) <= limit {
		return text
	}
	return shorten(text, limit)
}

func resultFrom(home folder, result frame) wire.Reply {
	if result.size > wire.MaxResultBytes {
		return failed(wire.Failf(wire.ResultTooLarge, "result too large: %d bytes, at most %d", result.size, wire.MaxResultBytes))
	}
	if !json.Valid(result.body) {
		return failed(wire.Failf(wire.NotSerializable, "the result is not JSON"))
	}
	if len(result.body) <= inlineResultBytes {
		return wire.Reply{Result: result.body}
	}
	file, err := writeResult(home, result.body)
	if err != nil {
		return failed(wire.Failf(wire.Internal, "storing the result: %v", err))
	}
	return wire.Reply{ResultFile: file}
}

func writeResult(home folder, content []byte) (*wire.ResultFile, error) {
	removeForgotten(home.results())
	path := filepath.Join(home.results(), freshName()+".json")
	if err := writeAtomically(path, content, 0o600); err != nil {
		return nil, err
	}
	digest := sha256.Sum256(content)
	return &wire.ResultFile{Path: path, Size: int64(len(content)), SHA256: hex.EncodeToString(digest[:])}, nil
}

// removeForgotten deletes results that nobody fetched: their caller is gone.
func removeForgotten(path string) {
	const age = 15 * time.Minute
	entries, _ := os.ReadDir(path)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > age {
			_ = os.Remove(filepath.Join(path, entry.Name()))
		}
	}
}

func discard(home folder, request wire.DiscardRequest) wire.Reply {
	if filepath.Dir(request.Path) != home.results() {
		return failed(wire.Failf(wire.BadRequest, "path is not that of a result"))
	}
	if err := os.Remove(request.Path); err != nil && !os.IsNotExist(err) {
		return failed(wire.Failf(wire.Internal, "removing the result: %v", err))
	}
	return wire.Reply{}
}
