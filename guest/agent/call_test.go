package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestCall_result(t *testing.T) {
	tests := map[string]struct {
		language wire.Language
		source   string
		payload  string
		want     string
		wantLogs string
	}{
		"F01 node: result and prints are apart": {
			wire.Node, `export function handler(p) { console.log("hello"); console.error("there"); return {n: p.n + 1}; }`,
			`{"n":41}`, `{"n":42}`, "hello\nthere\n"},
		"F01 python: result and prints are apart": {
			wire.Python, "import sys\ndef handler(p):\n  print('hello')\n  print('there', file=sys.stderr)\n  return {'n': p['n'] + 1}\n",
			`{"n":41}`, `{"n":42}`, "hello\nthere\n"},
		"F02 node: an async handler is awaited": {
			wire.Node, `export async function handler(p) { await new Promise(r => setTimeout(r, 5)); return [p]; }`, `"x"`, `["x"]`, ""},
		"F06, W10 python: a coroutine handler is awaited": {
			wire.Python, "import asyncio\nasync def handler(p):\n  await asyncio.sleep(0.005)\n  return [p]\n", `"x"`, `["x"]`, ""},
		"F09 node: undefined is null": {wire.Node, `export const handler = () => {};`, `1`, `null`, ""},
		"F09 python: None is null":    {wire.Python, "def handler(p): pass\n", `1`, `null`, ""},
		"F10 node: a null payload":    {wire.Node, `export const handler = (p) => p === null;`, `null`, `true`, ""},
		"F10 python: a null payload":  {wire.Python, "def handler(p): return p is None\n", `null`, `true`, ""},
		"node: an absent payload is undefined": {
			wire.Node, `export const handler = (p) => p === undefined;`, ``, `true`, ""},
		"python: an absent payload is None": {wire.Python, "def handler(p): return p is None\n", ``, `true`, ""},
		"E13 node: a deep payload is unchanged": {
			wire.Node, `export const handler = (p) => p;`, `{"a":[1,{"b":[true,null,"ä\u0000<>&"]}]}`, `{"a":[1,{"b":[true,null,"ä\u0000<>&"]}]}`, ""},
		"E13 python: a deep payload is unchanged": {
			wire.Python, "def handler(p): return p\n", `{"a":[1,{"b":[true,null,"ä\u0000<>&"]}]}`, `{"a":[1,{"b":[true,null,"ä\u0000<>&"]}]}`, ""},
		"F14 node: late timers change nothing": {
			wire.Node, `export const handler = () => { setTimeout(() => console.log("late"), 1); setInterval(() => {}, 1000); return 1; };`, `0`, `1`, ""},
		"E15 python: a live thread changes nothing": {
			wire.Python, "import threading, time\ndef handler(p):\n  threading.Thread(target=time.sleep, args=(60,)).start()\n  return 1\n", `0`, `1`, ""},
		"E16 node: a late crash changes nothing": {
			wire.Node, `export const handler = () => { setImmediate(() => { throw new Error("late"); }); return 1; };`, `0`, `1`, ""},
		"F18 python: the main module holds nothing to forge with": {
			wire.Python, "import sys\ndef handler(p): return hasattr(sys.modules['__main__'], 'sentinel')\n", `0`, `false`, ""},
		"F27 node: line breaks": {
			wire.Node, `export const handler = () => "a\nb\u2028c";`, `0`, "\"a\\nb\u2028c\"", ""},
		"F27 python: line breaks": {
			wire.Python, "def handler(p): return 'a\\nb\\u2028c'\n", `0`, "\"a\\nb\u2028c\"", ""},
		"F28 node: a lone surrogate is U+FFFD": {
			wire.Node, `export const handler = () => ["\ud800x", "\\ud800", "\ud83d\ude00"];`, `0`, "[\"\uFFFDx\",\"\\\\ud800\",\"😀\"]", ""},
		"F28 python: a lone surrogate is U+FFFD": {
			wire.Python, "def handler(p): return ['\\ud800x', '\\\\ud800', '\\ud83d\\ude00', '😀']\n", `0`, "[\"\uFFFDx\",\"\\\\ud800\",\"😀\",\"😀\"]", ""},
		"F29 node: NaN is null": {wire.Node, `export const handler = () => [NaN, Infinity];`, `0`, `[null,null]`, ""},
		"F30 node: large integers keep their digits": {
			wire.Node, `export const handler = (p) => ({same: p, more: p.id + 1n});`,
			`{"id":9007199254740993,"text":"9007199254740993","f":1.5e300}`,
			`{"same":{"id":9007199254740993,"text":"9007199254740993","f":1.5e+300},"more":9007199254740994}`, ""},
		"F30 python: large integers keep their digits": {
			wire.Python, "def handler(p): return p['id'] + 1\n", `{"id":123456789012345678901234567890}`, `123456789012345678901234567891`, ""},
		"node: the context is the second argument": {
			wire.Node, `export const handler = (p, c) => c.function_id;`, `0`, `"test::function"`, ""},
		"python: the context goes to a second parameter": {
			wire.Python, "def handler(p, context): return context['function_id']\n", `0`, `"test::function"`, ""},
		"python: the context goes to a keyword": {
			wire.Python, "def handler(p, *, context=None): return context['function_id']\n", `0`, `"test::function"`, ""},
		"python: a second parameter with a default keeps it": {
			wire.Python, "def handler(p, retries=3): return retries\n", `0`, `3`, ""},
		"python: *args gets the payload": {
			wire.Python, "def handler(*args): return list(args)\n", `7`, `[7]`, ""},
		"python: a decorator that says what it wraps": {
			wire.Python, "import functools\ndef d(f):\n  @functools.wraps(f)\n  def w(*args, **kw): return f(*args, **kw)\n  return w\n@d\ndef handler(p, context): return [p, context['function_id']]\n", `7`, `[7,"test::function"]`, ""},
		"python: a decorator that does not": {
			wire.Python, "def d(f): return lambda *args, **kw: f(*args, **kw)\n@d\ndef handler(p): return p\n", `7`, `7`, ""},
		"python: a partial": {
			wire.Python, "import functools\ndef h(rate, p, ctx): return [rate, p, ctx['function_id']]\nhandler = functools.partial(h, 2)\n", `7`, `[2,7,"test::function"]`, ""},
		"python: a partial with a keyword": {
			wire.Python, "import functools\ndef h(p, rate): return [p, rate]\nhandler = functools.partial(h, rate=2)\n", `7`, `[7,2]`, ""},
		"python: a method": {
			wire.Python, "class S:\n  def price(self, p): return p\nhandler = S().price\n", `7`, `7`, ""},
		"python: a class": {
			wire.Python, "class handler(dict):\n  def __init__(self, p): super().__init__(p=p)\n", `7`, `{"p":7}`, ""},
		"python: a function without a signature": {
			wire.Python, "handler = max\n", `[3,7]`, `7`, ""},
		"python: an async callable object": {
			wire.Python, "class H:\n  async def __call__(self, p, context): return [p, context['function_id']]\nhandler = H()\n", `7`, `[7,"test::function"]`, ""},
		"python: an async partial": {
			wire.Python, "import functools\nasync def h(a, p): return a + p\nhandler = functools.partial(h, 1)\n", `7`, `8`, ""},
		"node: a handler with one parameter": {
			wire.Node, `export const handler = (...args) => [args.length, args[0]];`, `7`, `[2,7]`, ""},
		"python: a task left on the loop changes nothing": {
			wire.Python, "import asyncio\nasync def handler(p):\n  asyncio.get_running_loop().create_task(asyncio.sleep(60))\n  return p\n", `7`, `7`, ""},
		"python: a callable object is a handler": {
			wire.Python, "class H:\n  def __call__(self, p, ctx): return [p, ctx['function_id']]\nhandler = H()\n", `7`, `[7,"test::function"]`, ""},
		"node: a context without values has its keys": {
			wire.Node, `export const handler = (p, c) => [c.metadata, c.traceparent];`, `0`, `[null,null]`, ""},
		"python: a context without values has its keys": {
			wire.Python, "def handler(p, c): return [c['metadata'], c['traceparent']]\n", `0`, `[null,null]`, ""},
		"node: a thenable is awaited": {
			wire.Node, `export const handler = () => ({then(f) { f(3); }});`, `0`, `3`, ""},
	}
	inAllWays(t, func(t *testing.T, shared *guest) {
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				guest := *shared
				guest.t = t
				reply := guest.call(tc.language, tc.source, tc.payload)
				if reply.Error != nil {
					t.Fatalf("error: %v\n%s\nlogs: %s", reply.Error, reply.Error.Stack, reply.Logs)
				}
				if diff := cmp.Diff(tc.want, string(reply.Result)); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				// A process that calls share lives on after the result, and so prints more.
				more := shared.way.isolation == wire.Shared
				if got := sortedLines(reply.Logs); got != tc.wantLogs && (!more || !hasLines(got, tc.wantLogs)) {
					t.Errorf("logs: want %q, got %q", tc.wantLogs, got)
				}
			})
		}
	})
}

// hasLines says whether every line is in a text.
func hasLines(text, lines string) bool {
	for line := range strings.Lines(lines) {
		if !strings.Contains(text, line) {
			return false
		}
	}
	return true
}

// sortedLines makes up for the order of the two streams, which is not fixed.
func sortedLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func code(value int) *int { return &value }

func TestCall_failure(t *testing.T) {
	tests := map[string]struct {
		language wire.Language
		source   string
		want     wire.Failure // Stack is compared by wantStack
		stack    string
	}{
		"F03 node: a throw": {wire.Node, "export function handler() {\n  throw new RangeError('too far');\n}",
			wire.Failure{Kind: wire.Thrown, Type: "RangeError", Message: "too far", Line: 2}, "handler.mjs:2"},
		"F04 python: a raise": {wire.Python, "def handler(p):\n  raise KeyError('missing')\n",
			wire.Failure{Kind: wire.Thrown, Type: "KeyError", Message: "'missing'", Line: 2}, "line 2, in handler"},
		"node: an error class of the source's own": {wire.Node, "class Odd extends Error {}\nexport const handler = () => { throw new Odd('x'); };",
			wire.Failure{Kind: wire.Thrown, Type: "Odd", Message: "x", Line: 2}, "handler.mjs:2"},
		"node: something that is no error": {wire.Node, "export const handler = () => { throw 'words'; };",
			wire.Failure{Kind: wire.Thrown, Type: "string", Message: "words"}, ""},
		"node: a rejected promise": {wire.Node, "export const handler = async () => { await null;\n throw new TypeError('later'); };",
			wire.Failure{Kind: wire.Thrown, Type: "TypeError", Message: "later", Line: 2}, "handler.mjs:2"},
		"F07 python: an unserializable result": {wire.Python, "def handler(p): return {1, 2}\n",
			wire.Failure{Kind: wire.NotSerializable, Type: "TypeError", Message: "Object of type set is not JSON serializable"}, "TypeError"},
		"F08 python: a cycle": {wire.Python, "def handler(p):\n  a = []\n  a.append(a)\n  return a\n",
			wire.Failure{Kind: wire.NotSerializable, Type: "ValueError", Message: "Circular reference detected"}, "ValueError"},
		"F08 node: a function": {wire.Node, "export const handler = () => handler;",
			wire.Failure{Kind: wire.NotSerializable, Type: "TypeError", Message: "a function is not JSON-serializable"}, "TypeError"},
		"F08 node: a symbol": {wire.Node, "export const handler = () => Symbol('s');",
			wire.Failure{Kind: wire.NotSerializable, Type: "TypeError", Message: "a symbol is not JSON-serializable"}, "TypeError"},
		"F08 node: a cycle": {wire.Node, "export const handler = () => { const a = {}; a.a = a; return a; };",
			wire.Failure{Kind: wire.NotSerializable, Type: "TypeError", Message: "Converting circular structure to JSON\n    --> starting at object with constructor 'Object'\n    --- property 'a' closes the circle"}, "TypeError"},
		"python: a loop that is nested too deeply": {wire.Python, "def handler(p):\n  a = []\n  for _ in range(100000): a = [a]\n  return a\n",
			wire.Failure{Kind: wire.NotSerializable, Type: "ValueError", Message: "the result is nested too deeply for JSON"}, ""},
		"python: a coroutine that raises": {wire.Python, "import asyncio\nasync def handler(p):\n  await asyncio.sleep(0)\n  raise LookupError('later')\n",
			wire.Failure{Kind: wire.Thrown, Type: "LookupError", Message: "later", Line: 4}, "in handler"},
		"python: a coroutine with an unserializable result": {wire.Python, "async def handler(p): return {1}\n",
			wire.Failure{Kind: wire.NotSerializable, Type: "TypeError", Message: "Object of type set is not JSON serializable"}, ""},
		"python: parameters that do not fit": {wire.Python, "def handler(): pass\n",
			wire.Failure{Kind: wire.Thrown, Type: "TypeError", Message: "handler() takes 0 positional arguments but 1 was given"}, ""},
		"F29 python: NaN": {wire.Python, "def handler(p): return float('nan')\n",
			wire.Failure{Kind: wire.NotSerializable, Type: "ValueError", Message: "the result holds NaN or an infinite float, which JSON cannot represent"}, ""},
		"F15 node: a process exit": {wire.Node, "export const handler = () => process.exit(0);",
			wire.Failure{Kind: wire.NoResult, Type: "ProcessExit", Message: "the process exited with code 0 while waiting for the handler", ExitCode: code(0)}, ""},
		"F21 node: a process exit after prints": {wire.Node, "export const handler = () => { console.log('out'); console.error('so far'); process.exit(5); };",
			wire.Failure{Kind: wire.NoResult, Type: "ProcessExit", Message: "the process exited with code 5 while waiting for the handler: so far\n", ExitCode: code(5)}, ""},
		"F15 python: a process exit": {wire.Python, "import os\ndef handler(p): os._exit(3)\n",
			wire.Failure{Kind: wire.NoResult, Type: "ProcessExit", Message: "the interpreter exited with code 3 before there was a result", ExitCode: code(3)}, ""},
		"F16 python: the exit exception": {wire.Python, "import sys\ndef handler(p): sys.exit(4)\n",
			wire.Failure{Kind: wire.Thrown, Type: "SystemExit", Message: "4", Line: 2}, "SystemExit"},
		"F17 node: a promise that never settles": {wire.Node, "export const handler = () => new Promise(() => {});",
			wire.Failure{Kind: wire.NoResult, Type: "PendingPromise", Message: "the handler returned a promise that can never settle"}, ""},
		"F17 node: a promise that never settles, after prints": {wire.Node, "export const handler = () => { console.error('waiting'); return new Promise(() => {}); };",
			wire.Failure{Kind: wire.NoResult, Type: "PendingPromise", Message: "the handler returned a promise that can never settle: waiting\n"}, ""},
		"E07 python: killed by a signal": {wire.Python, "import os, sys\ndef handler(p):\n  print('last words', file=sys.stderr, flush=True)\n  os.kill(os.getpid(), 9)\n",
			wire.Failure{Kind: wire.NoResult, Type: "ProcessExit", Message: "the interpreter was killed by SIGKILL before there was a result: last words\n", ExitCode: code(137), Signal: "SIGKILL"}, ""},
		"node: a timer crashes before the result": {wire.Node, "export const handler = () => new Promise(() => setTimeout(() => { throw new Error('timer'); }, 1));",
			wire.Failure{Kind: wire.Thrown, Type: "Error", Message: "timer", Line: 1}, "handler.mjs:1"},
	}
	inAllWays(t, func(t *testing.T, shared *guest) {
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				guest := *shared
				guest.t = t
				reply := guest.call(tc.language, tc.source, "0")
				if reply.Error == nil {
					t.Fatalf("want an error, got %s", reply.Result)
				}
				got := *reply.Error
				got.Stack = ""
				if tc.want.Line == 0 {
					got.Line = 0
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("failure (-want +got):\n%s", diff)
				}
				if !strings.Contains(reply.Error.Stack, tc.stack) {
					t.Errorf("stack lacks %q:\n%s", tc.stack, reply.Error.Stack)
				}
				if startsInHost.MatchString(reply.Error.Stack) {
					t.Errorf("stack shows the host:\n%s", reply.Error.Stack)
				}
			})
		}
	})
}

// startsInHost finds the files through which a host calls a handler.
var startsInHost = regexp.MustCompile(`/python/(start|call|serve|sandbox_loop|sandbox_fork)\.py`)

// E08: the end of the errors is cut between characters.
func TestCall_stderrTail(t *testing.T) {
	inAllWays(t, func(t *testing.T, guest *guest) {
		for language, source := range map[wire.Language]string{
			wire.Node:   "export const handler = () => { console.error('é'.repeat(1000) + 'x'); process.exit(9); };",
			wire.Python: "import os, sys\ndef handler(p):\n  print('é' * 1000 + 'x', file=sys.stderr, flush=True)\n  os._exit(9)\n",
		} {
			reply := guest.call(language, source, "0")
			if reply.Error == nil || reply.Error.Kind != wire.NoResult || *reply.Error.ExitCode != 9 {
				t.Fatalf("%s: got %s %v", language, reply.Result, reply.Error)
			}
			_, tail, _ := strings.Cut(reply.Error.Message, ": ")
			if len(tail) > stderrTailBytes || len(tail) < stderrTailBytes-1 || strings.Trim(tail, "éx\n") != "" {
				t.Errorf("%s: %d bytes: %q", language, len(tail), tail)
			}
		}
	})
}

// The whole context arrives, and nothing else (design §5; the keys are those of
// the bus).
func TestCall_context(t *testing.T) {
	inAllWays(t, func(t *testing.T, guest *guest) {
		for language, source := range map[wire.Language]string{
			wire.Node:   `export const handler = (p, context) => [Object.keys(context).sort(), {...context, deadline_ms: 0}, context.deadline_ms - Date.now(), process.env.TRACEPARENT];`,
			wire.Python: "import os, time\ndef handler(p, context): return [sorted(context), {**context, 'deadline_ms': 0}, int(context['deadline_ms'] - time.time() * 1000), os.environ['TRACEPARENT']]\n",
		} {
			request := callRequest(language, guest.mustPlant(language, source), "0")
			request.Context.Metadata, request.Context.Traceparent = json.RawMessage(`{"tenant":{"id":7}}`), "00-01-02-03"
			reply := guest.invoke(request)
			var got []json.RawMessage
			if err := json.Unmarshal(reply.Result, &got); err != nil || len(got) != 4 {
				t.Fatalf("%s: %s %v", language, reply.Result, reply.Error)
			}
			var context wire.CallContext
			if err := json.Unmarshal(got[1], &context); err != nil {
				t.Fatal(err)
			}
			request.Context.DeadlineMs = 0
			if diff := cmp.Diff(request.Context, context); diff != "" {
				t.Errorf("%s: context (-want +got):\n%s", language, diff)
			}
			if keys := string(got[0]); keys != `["deadline_ms","function_id","metadata","traceparent"]` || string(got[3]) != `"00-01-02-03"` {
				t.Errorf("%s: keys %s, environment %s", language, keys, got[3])
			}
			var left int64
			if err := json.Unmarshal(got[2], &left); err != nil || left <= 0 || left > testTimeout.Milliseconds() {
				t.Errorf("%s: %d ms left", language, left)
			}
		}
	})
}

func TestCall_refusal(t *testing.T) {
	guest := newGuest(t)
	valid := callRequest(wire.Node, digestOf("x"), "1")
	tests := map[string]struct {
		change func(*wire.CallRequest)
		want   wire.FailureKind
	}{
		"a source that was never planted":      {func(*wire.CallRequest) {}, wire.NotPlanted},
		"a digest that would leave the folder": {func(r *wire.CallRequest) { r.SourceDigest = "../../etc" }, wire.BadRequest},
		"a language that is not known":         {func(r *wire.CallRequest) { r.Language = "ruby" }, wire.BadRequest},
		"no deadline":                          {func(r *wire.CallRequest) { r.TimeoutMs = 0 }, wire.BadRequest},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			request := valid
			tc.change(&request)
			reply := guest.exec(wire.CommandCall, request)
			if reply.Error == nil || reply.Error.Kind != tc.want {
				t.Errorf("want %s, got %+v", tc.want, reply.Error)
			}
		})
	}
}

// F11, F12: whatever arrives on standard input, the agent answers.
func TestAgent_badRequests(t *testing.T) {
	guest := newGuest(t)
	tests := map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"malformed JSON":           {"{", []string{"call"}, "request: malformed JSON at byte 1"},
		"an empty standard input":  {"", []string{"call"}, "reading the request: empty"},
		"a field of a wrong type":  {`{"timeoutMs":"5"}`, []string{"call"}, `request: field "timeoutMs" has the wrong type`},
		"an unknown subcommand":    {"{}", []string{"dance"}, `unknown subcommand "dance"`},
		"no subcommand":            {"{}", nil, "usage: agent SUBCOMMAND [--request-file PATH]"},
		"a missing request file":   {"", []string{"call", "--request-file", "/nonexistent"}, "reading the request: open /nonexistent: no such file or directory"},
		"a larger request than is": {strings.Repeat(" ", wire.MaxStdinRequestBytes+1), []string{"call"}, "reading the request: larger than 8388608 bytes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reply, err := guest.execRaw([]byte(tc.stdin), tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			want := &wire.Failure{Kind: wire.BadRequest, Type: "BadRequest", Message: tc.want}
			if diff := cmp.Diff(want, reply.Error); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
		})
	}
}

// W8: prints to either descriptor, even of whole reply frames, stay prints.
func TestCall_resultCannotBeForgedByPrints(t *testing.T) {
	forged, err := wire.EncodeReply(wire.Reply{Result: json.RawMessage(`"forged"`)})
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := wire.Marshal(string(forged))
	hostFrame, _ := wire.Marshal("R\x00\x00\x00\x08\"forged\"D\x00\x00\x00\x00")
	sources := map[wire.Language]string{
		wire.Node: fmt.Sprintf(`import fs from 'node:fs'; import { execSync } from 'node:child_process';
export function handler() { for (const text of [%s, %s]) { process.stdout.write(text); fs.writeSync(1, text); fs.writeSync(2, text); }
execSync('echo child', {stdio: 'inherit'}); return 'real'; }`, quoted, hostFrame),
		wire.Python: fmt.Sprintf("import os, sys, subprocess\ndef handler(p):\n  for text in [%s, %s]:\n    sys.stdout.write(text); os.write(1, text.encode()); os.write(2, text.encode())\n  subprocess.run(['echo', 'child'])\n  return 'real'\n", quoted, hostFrame),
	}
	inAllWays(t, func(t *testing.T, guest *guest) {
		for language, source := range sources {
			reply := guest.call(language, source, "0")
			if string(reply.Result) != `"real"` {
				t.Errorf("%s: got %s, %v", language, reply.Result, reply.Error)
			}
			if !strings.Contains(reply.Logs, "forged") || !strings.Contains(reply.Logs, "child") {
				t.Errorf("%s: prints are missing from the logs: %q", language, reply.Logs)
			}
		}
	})
}
