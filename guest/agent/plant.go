package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const defaultCheckTimeoutMs = 10_000

func isDigest(text string) bool { return isHex(text, 64) }

// isHex reports whether a text is so many lower-case hexadecimal digits.
func isHex(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}

// plant stores a source under its digest and checks, in an interpreter, that it
// loads and defines its handler, unless that is known. A source that does not is
// removed again.
func plant(home folder, request wire.PlantRequest) wire.Reply {
	if failure := checkPlant(request); failure != nil {
		return failed(failure)
	}
	path := home.handler(request.SourceDigest, request.Language)
	_, err := os.Stat(path)
	known := err == nil
	if err := writeAtomically(path, []byte(request.Source), 0o644); err != nil {
		return failed(wire.Failf(wire.Internal, "writing the source: %v", err))
	}
	reply := wire.Reply{}
	if !request.Known {
		reply = loads(home, request, path)
	}
	// Another function may already live on this very source under another name.
	if reply.Error != nil && !known {
		_ = os.Remove(path)
		_ = os.Remove(home.function(request.SourceDigest)) // if it is empty
	}
	reply.Result, reply.Start = nil, ""
	if reply.Error == nil && request.Warm {
		warm(home, request)
	}
	return reply
}

// loads checks a source that is in place.
func loads(home folder, request wire.PlantRequest, path string) wire.Reply {
	return host{
		home: home, language: request.Language, dir: home.function(request.SourceDigest),
		env:      environment(home, request.Bus, request.Env),
		envelope: envelope{Mode: "check", Source: path, Handler: orDefault(request.Handler)},
		timeout:  time.Duration(positiveOr(int(request.TimeoutMs), defaultCheckTimeoutMs)) * time.Millisecond,
	}.serve()
}

// warm lets the supervisor make processes ready for the calls of a source.
func warm(home folder, request wire.PlantRequest) {
	call := wire.CallRequest{
		Language: request.Language, SourceDigest: request.SourceDigest, Handler: request.Handler, Isolation: request.Isolation,
	}
	interpreter, failure := findInterpreter(request.Language)
	if failure != nil {
		return
	}
	spec, _ := newWarmSpec(interpreter, call, environment(home, request.Bus, request.Env))
	body, err := wire.Marshal(spec)
	if err != nil {
		return
	}
	if err := ask(home, askWarm, body); err != nil {
		startSupervisor(home)
	}
}

func checkPlant(request wire.PlantRequest) *wire.Failure {
	digest := sha256.Sum256([]byte(request.Source))
	switch {
	case request.Language.Extension() == "":
		return wire.Failf(wire.BadRequest, "language must be %q or %q", wire.Node, wire.Python)
	case request.Source == "":
		return wire.Failf(wire.BadRequest, "source is empty: it must define %s(payload)", orDefault(request.Handler))
	case hex.EncodeToString(digest[:]) != request.SourceDigest:
		return wire.Failf(wire.BadRequest, "sourceDigest is not the source's SHA-256")
	}
	return nil
}

func unplant(home folder, request wire.UnplantRequest) wire.Reply {
	if !isDigest(request.SourceDigest) {
		return failed(wire.Failf(wire.BadRequest, "sourceDigest must be a SHA-256 in lower-case hexadecimal"))
	}
	if err := os.RemoveAll(home.function(request.SourceDigest)); err != nil {
		return failed(wire.Failf(wire.Internal, "removing the source: %v", err))
	}
	tellSupervisor(home, askUnplant, []byte(request.SourceDigest))
	return wire.Reply{}
}
