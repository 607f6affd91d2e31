package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestPlant_refusal(t *testing.T) {
	tests := map[string]struct {
		language wire.Language
		source   string
		want     wire.Failure
	}{
		"node: a syntax error names its line": {wire.Node, "export function handler(p) {\n  return p;\n}\nfoo bar;\n",
			wire.Failure{Kind: wire.LoadFailed, Type: "SyntaxError", Message: "Unexpected identifier 'bar'", Line: 4}},
		"python: a syntax error names its line": {wire.Python, "def handler(p):\n  return p\n\nfoo bar\n",
			wire.Failure{Kind: wire.LoadFailed, Type: "SyntaxError", Message: "invalid syntax (handler.py, line 4)", Line: 4}},
		"node: an import of something that is not there": {wire.Node, "\nimport { nothing } from 'node:fs';\nexport const handler = nothing;",
			wire.Failure{Kind: wire.LoadFailed, Type: "SyntaxError", Message: "The requested module 'node:fs' does not provide an export named 'nothing'", Line: 2}},
		"node: a throw while loading": {wire.Node, "export const handler = 1;\nthrow new Error('no luck');",
			wire.Failure{Kind: wire.LoadFailed, Type: "Error", Message: "no luck", Line: 2}},
		"python: a raise while loading": {wire.Python, "x = 1\nraise OSError('no luck')\n",
			wire.Failure{Kind: wire.LoadFailed, Type: "OSError", Message: "no luck", Line: 2}},
		"python: an exit while loading": {wire.Python, "import sys\nsys.exit(2)\n",
			wire.Failure{Kind: wire.LoadFailed, Type: "SystemExit", Message: "2", Line: 2}},
		"F21 node: an exit while loading": {wire.Node, "console.error('no licence'); process.exit(6);",
			wire.Failure{Kind: wire.NoResult, Type: "ProcessExit", Message: "the process exited with code 6 while loading the source: no licence\n", ExitCode: code(6)}},
		"F05 node: no export of that name": {wire.Node, "function handler() {}",
			wire.Failure{Kind: wire.HandlerMissing, Type: "TypeError", Message: "the source must export a function handler(payload)"}},
		"F05 python: nothing of that name": {wire.Python, "def other(p): pass\n",
			wire.Failure{Kind: wire.HandlerMissing, Type: "TypeError", Message: "handler is not defined: the source must define a function handler(payload)"}},
		"D22 python: a handler that is not callable": {wire.Python, "handler = 5\n",
			wire.Failure{Kind: wire.HandlerMissing, Type: "TypeError", Message: "handler is not callable: the source must define a function handler(payload)"}},
		"node: loading never ends": {wire.Node, "export function handler() {}\nawait new Promise(() => {});",
			wire.Failure{Kind: wire.NoResult, Type: "PendingPromise", Message: "the source waits at its top level for a promise that can never settle"}},
	}
	shared := newGuest(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			guest := *shared
			guest.t = t
			reply := guest.plant(tc.language, tc.source)
			if reply.Error == nil {
				t.Fatal("want an error")
			}
			got := *reply.Error
			got.Stack = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(filepath.Join(guest.home, "functions", digestOf(tc.source))); !os.IsNotExist(err) {
				t.Error("the refused source is still there")
			}
		})
	}
}

func TestPlant_digestAndDeadline(t *testing.T) {
	guest := newGuest(t)
	source := "import time\ntime.sleep(60)\n"
	reply := guest.exec(wire.CommandPlant, wire.PlantRequest{Language: wire.Python, Source: source, SourceDigest: digestOf("other")})
	if reply.Error == nil || reply.Error.Kind != wire.BadRequest {
		t.Errorf("want a refusal of the digest, got %+v", reply.Error)
	}
	reply = guest.exec(wire.CommandPlant, wire.PlantRequest{
		Language: wire.Python, Source: source, SourceDigest: digestOf(source), TimeoutMs: 300})
	if reply.Error == nil || reply.Error.Kind != wire.TimedOut {
		t.Errorf("want a timeout, got %+v", reply.Error)
	}
}

// A second function on the same source under a name it lacks must not remove
// the source from under the first.
func TestPlant_failureKeepsAKnownSource(t *testing.T) {
	guest := newGuest(t)
	source := "def handler(p): return 1\n"
	digest := guest.mustPlant(wire.Python, source)
	reply := guest.exec(wire.CommandPlant, wire.PlantRequest{Language: wire.Python, Source: source, SourceDigest: digest, Handler: "other"})
	if reply.Error == nil || reply.Error.Kind != wire.HandlerMissing || !strings.Contains(reply.Error.Message, "other(payload)") {
		t.Fatalf("want a missing handler, got %+v", reply.Error)
	}
	if reply := guest.exec(wire.CommandCall, callRequest(wire.Python, digest, "0")); string(reply.Result) != "1" {
		t.Errorf("the first function is broken: %v", reply.Error)
	}
}

func TestUnplant(t *testing.T) {
	guest := newGuest(t)
	digest := guest.mustPlant(wire.Node, `export const handler = () => 1;`)
	for range 2 {
		if reply := guest.exec(wire.CommandUnplant, wire.UnplantRequest{SourceDigest: digest}); reply.Error != nil {
			t.Fatal(reply.Error)
		}
	}
	reply := guest.exec(wire.CommandCall, callRequest(wire.Node, digest, "0"))
	if reply.Error == nil || reply.Error.Kind != wire.NotPlanted {
		t.Errorf("want not planted, got %+v", reply.Error)
	}
}

func TestPlant_otherHandlerName(t *testing.T) {
	guest := newGuest(t)
	for language, source := range map[wire.Language]string{
		wire.Node: "export const main = (p) => p;", wire.Python: "def main(p): return p\n",
	} {
		planted := guest.exec(wire.CommandPlant, wire.PlantRequest{Language: language, Source: source, SourceDigest: digestOf(source), Handler: "main"})
		if planted.Error != nil {
			t.Fatal(planted.Error)
		}
		request := callRequest(language, digestOf(source), "3")
		request.Handler = "main"
		if reply := guest.exec(wire.CommandCall, request); string(reply.Result) != "3" {
			t.Errorf("%s: %s %v", language, reply.Result, reply.Error)
		}
	}
}

// What is known to load is put in place without starting an interpreter.
func TestPlant_known(t *testing.T) {
	guest := newGuest(t)
	for language, source := range map[wire.Language]string{wire.Node: "throw new Error('loaded')", wire.Python: "raise Exception('loaded')\n"} {
		request := wire.PlantRequest{Language: language, Source: source, SourceDigest: digestOf(source), Known: true}
		if reply := guest.exec(wire.CommandPlant, request); reply.Error != nil {
			t.Errorf("%s: %v", language, reply.Error)
		}
		reply := guest.exec(wire.CommandCall, callRequest(language, digestOf(source), "0"))
		if reply.Error == nil || reply.Error.Kind != wire.LoadFailed {
			t.Errorf("%s: called: %+v", language, reply)
		}
		request.SourceDigest = digestOf("another")
		if reply := guest.exec(wire.CommandPlant, request); reply.Error == nil || reply.Error.Kind != wire.BadRequest {
			t.Errorf("%s: with another digest: %+v", language, reply)
		}
	}
}
