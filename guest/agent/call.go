package main

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	defaultLogLimit = 16 << 10
	// stderrTailBytes of a failed interpreter's errors go into its message
	// (contracts/code-runner.md §12).
	stderrTailBytes = 500
	// lingerWait is how long a host may take, after the result, to close its
	// client (2 s in the host) before it is killed.
	lingerWait = 2500 * time.Millisecond
)

// envelope is the first line on a host's descriptor 3; the payload follows.
type envelope struct {
	Mode    string         `json:"mode"`
	Source  string         `json:"source"`
	Handler string         `json:"handler,omitempty"`
	Context handlerContext `json:"context"`
}

// handlerContext is a wire.CallContext with every key there, null if it has no
// value, so that handlers need not ask whether one is.
type handlerContext struct {
	FunctionID  string          `json:"function_id"`
	Metadata    json.RawMessage `json:"metadata"`
	Traceparent *string         `json:"traceparent"`
	DeadlineMs  int64           `json:"deadline_ms"`
}

func newHandlerContext(given wire.CallContext, timeout time.Duration) handlerContext {
	context := handlerContext{FunctionID: given.FunctionID, Metadata: given.Metadata, DeadlineMs: given.DeadlineMs}
	if given.Traceparent != "" {
		context.Traceparent = &given.Traceparent
	}
	if context.DeadlineMs == 0 {
		context.DeadlineMs = time.Now().Add(timeout).UnixMilli()
	}
	return context
}

// call runs a planted handler: in a process that is ready, if the call is warm and
// there is one, else in a fresh interpreter.
func call(home folder, request wire.CallRequest) answered {
	begun := time.Now()
	if failure := checkCall(request); failure != nil {
		return answered{reply: failed(failure)}
	}
	source := home.handler(request.SourceDigest, request.Language)
	if !isPlanted(home, request) {
		return answered{reply: failed(wire.Failf(wire.NotPlanted, "the source is not planted in this runtime"))}
	}
	held, failure := claimToken(home, request.Token)
	if failure != nil {
		return answered{reply: failed(failure)}
	}
	defer held.release()
	timeout := milliseconds(request.TimeoutMs)
	cold := host{
		home: home, language: request.Language, dir: home.function(request.SourceDigest),
		env: environment(home, request.Bus, callEnvironment(request)),
		envelope: envelope{
			Mode: "call", Source: source, Handler: orDefault(request.Handler),
			Context: newHandlerContext(request.Context, timeout),
		},
		payload: request.Payload, timeout: timeout, logLimit: request.LogLimit, stop: held.stop,
	}
	if !request.Warm {
		return answered{reply: cold.serve()}
	}
	return cold.serveWarm(request, begun)
}

// serveWarm tries the supervisor first. Where that leads to nothing the call has not
// begun, and starts cold.
func (h host) serveWarm(request wire.CallRequest, begun time.Time) answered {
	interpreter, failure := findInterpreter(h.language)
	if failure != nil {
		return answered{reply: failed(failure)}
	}
	warm := newWarmCall(h.home, interpreter, request, begun)
	warm.stop = h.stop
	frame, how := warm.do()
	if how == warmDone {
		return answered{frame: frame}
	}
	h.elapsed = time.Since(begun)
	answer := answered{reply: h.serve()}
	if how == warmMissing {
		answer.afterwards = func() { startSupervisor(h.home) }
	}
	return answer
}

func isPlanted(home folder, request wire.CallRequest) bool {
	_, err := os.Stat(home.handler(request.SourceDigest, request.Language))
	return err == nil
}

func callEnvironment(request wire.CallRequest) map[string]string {
	env := maps.Clone(request.Env)
	if request.Context.Traceparent != "" {
		if env == nil {
			env = map[string]string{}
		}
		env["TRACEPARENT"] = request.Context.Traceparent
	}
	return env
}

func checkCall(request wire.CallRequest) *wire.Failure {
	switch {
	case request.TimeoutMs <= 0:
		return wire.Failf(wire.BadRequest, "timeoutMs must be at least 1")
	case !isDigest(request.SourceDigest):
		return wire.Failf(wire.BadRequest, "sourceDigest must be a SHA-256 in lower-case hexadecimal")
	case request.Language.Extension() == "":
		return wire.Failf(wire.BadRequest, "language must be %q or %q", wire.Node, wire.Python)
	}
	return nil
}

func orDefault(handler string) string {
	if handler == "" {
		return wire.DefaultHandler
	}
	return handler
}

// host is one use of a language's handler host.
type host struct {
	home     folder
	language wire.Language
	dir      string
	env      []string
	envelope envelope
	payload  json.RawMessage
	timeout  time.Duration
	elapsed  time.Duration // of the timeout, before the start
	waited   time.Duration // of that, for the interpreter
	logLimit int
	stop     <-chan os.Signal // nil: nobody cancels it
}

func (h host) serve() wire.Reply {
	interpreter, failure := findInterpreter(h.language)
	if failure == nil {
		failure = ensureHosts(h.home)
	}
	if failure != nil {
		return failed(failure)
	}
	logs := newCapture(positiveOr(h.logLimit, defaultLogLimit))
	errors := newCapture(4 * stderrTailBytes)
	started, failure := h.start(interpreter, logs, both{logs, errors})
	if failure != nil {
		return failed(failure)
	}
	reply := h.conclude(started, logs, errors)
	reply.Start = wire.StartCold
	return reply
}

// conclude waits for the handler's end, ends all that stems from it, and says
// what became of it.
func (h host) conclude(started *process, logs, errors *capture) wire.Reply {
	outcome := started.awaitResult(h.timeout-h.elapsed, h.stop)
	duration := time.Since(started.begun)
	started.kill()
	started.finish()
	return h.report(outcome, duration, logs, errors)
}

func (h host) report(outcome outcome, duration time.Duration, logs, errors *capture) wire.Reply {
	reply := outcome.reply(h.home, h.timeout, errors)
	reply.Logs, reply.LogsTruncated = logs.text()
	reply.DurationMs = (h.waited + duration).Milliseconds()
	return reply
}

func (h host) start(interpreter string, stdout, stderr io.Writer) (*process, *wire.Failure) {
	head, err := wire.Marshal(h.envelope)
	if err != nil {
		return nil, wire.Failf(wire.BadRequest, "context: %s", describeJSON(err))
	}
	started, err := program{
		command: hostCommand(h.home, interpreter, h.language, hostCall), dir: h.dir, env: h.env,
		envelope: append(append(head, '\n'), h.payload...), stdout: stdout, stderr: stderr,
	}.start()
	if err != nil {
		return nil, wire.Failf(wire.Internal, "starting the interpreter: %v", err)
	}
	return started, nil
}

type both [2]*capture

// Write implements io.Writer.
func (b both) Write(data []byte) (int, error) {
	_, _ = b[0].Write(data)
	return b[1].Write(data)
}

func positiveOr(value, otherwise int) int {
	if value > 0 {
		return value
	}
	return otherwise
}
