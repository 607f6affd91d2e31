package main

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// perCallVariables come with each call, so processes that wait for one are
// started without them. Whatever else is in the environment is part of what a
// process is: the source may read it when it is loaded.
var perCallVariables = []string{"TRACEPARENT", "III_WORKER_NAME"}

// importWait bounds the loading of a source in a process that is made ready.
const importWait = 10 * time.Second

// warmSpec says which processes can serve a call: those that were started from
// the same one.
type warmSpec struct {
	Language    wire.Language `json:"language"`
	Digest      string        `json:"digest"`
	Handler     string        `json:"handler"`
	Shared      bool          `json:"shared"`
	Interpreter string        `json:"interpreter"`
	Env         []string      `json:"env"`
}

// newWarmSpec also returns the part of the environment that is a call's own.
func newWarmSpec(interpreter string, request wire.CallRequest, env []string) (warmSpec, map[string]string) {
	spec := warmSpec{
		Language: request.Language, Digest: request.SourceDigest, Handler: orDefault(request.Handler),
		Shared: request.Isolation == wire.Shared, Interpreter: interpreter,
	}
	own := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(perCallVariables, name) {
			own[name] = value
		} else {
			spec.Env = append(spec.Env, entry)
		}
	}
	return spec, own
}

// key names the pool of a spec. It holds no NUL, so the parts cannot run together.
func (s warmSpec) key() string {
	shared := "per call"
	if s.Shared {
		shared = "shared"
	}
	parts := append([]string{string(s.Language), s.Digest, s.Handler, shared, s.Interpreter}, s.Env...)
	digest := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(digest[:])
}

// firstLine is what the host reads before any call.
type firstLine struct {
	Source  string      `json:"source"`
	Handler string      `json:"handler"`
	Shared  bool        `json:"shared"`
	Context loadContext `json:"context"`
}

type loadContext struct {
	DeadlineMs int64 `json:"deadline_ms"`
}

// program is the interpreter that loads the handler and waits for calls.
func (s warmSpec) program(home folder) program {
	// Strings and numbers only: this cannot fail.
	line, _ := wire.Marshal(firstLine{
		Source: home.handler(s.Digest, s.Language), Handler: s.Handler, Shared: s.Shared,
		Context: loadContext{DeadlineMs: time.Now().Add(importWait).UnixMilli()},
	})
	return program{
		command: hostCommand(home, s.Interpreter, s.Language, hostServe), dir: home.function(s.Digest), env: s.Env,
		envelope: append(line, '\n'), keepOpen: true,
	}
}
