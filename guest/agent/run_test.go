package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestRun(t *testing.T) {
	tests := map[string]struct {
		language   wire.Language
		source     string
		change     func(*wire.RunRequest)
		want       wire.Run
		wantResult string
		wantStderr string // a part; want.Stderr is ignored then
	}{
		"A38 node: both streams, no mixing": {
			wire.Node, `console.log("out"); console.error("err");`, nil,
			wire.Run{Stdout: "out\n", Stderr: "err\n"}, "null", ""},
		"A38 python: both streams, no mixing": {
			wire.Python, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n", nil,
			wire.Run{Stdout: "out\n", Stderr: "err\n"}, "null", ""},
		"A39 node: non-ASCII text": {
			wire.Node, `console.log("grüße 😀");`, nil, wire.Run{Stdout: "grüße 😀\n"}, "null", ""},
		"A39 python: non-ASCII text": {
			wire.Python, "print('grüße 😀')\n", nil, wire.Run{Stdout: "grüße 😀\n"}, "null", ""},
		"A37 node: a throw": {
			wire.Node, "const a = 1;\nthrow new Error('boom');", nil, wire.Run{ExitCode: 1}, "", "mjs:2\nthrow new Error('boom');"},
		"A37 python: a raise": {
			wire.Python, "a = 1\nraise ValueError('boom')\n", nil, wire.Run{ExitCode: 1}, "", "line 2, in <module>\n    raise ValueError('boom')\nValueError: boom\n"},
		"A37 node: a syntax error": {
			wire.Node, "let a = 1;\nfoo bar;", nil, wire.Run{ExitCode: 1}, "", "mjs:2\nfoo bar;"},
		"A37 python: a syntax error": {
			wire.Python, "a = 1\nfoo bar\n", nil, wire.Run{ExitCode: 1}, "", "line 2\n    foo bar\n        ^^^\nSyntaxError: invalid syntax\n"},
		"A42 node: process exit": {
			wire.Node, `console.log("x"); process.exit(3);`, nil, wire.Run{Stdout: "x\n", ExitCode: 3}, "", ""},
		"A42 python: process exit": {
			wire.Python, "import sys\nresult = 5\nprint('x')\nsys.exit(3)\n", nil, wire.Run{Stdout: "x\n", ExitCode: 3}, "5", ""},
		"python: an exit with a message": {
			wire.Python, "import sys\nsys.exit('bye')\n", nil, wire.Run{Stderr: "bye\n", ExitCode: 1}, "null", ""},
		"node: an unsettled top-level await exits with 13": {
			wire.Node, `await new Promise(() => {});`, nil, wire.Run{ExitCode: 13}, "", "\x00"},
		"node: killed by a signal": {
			wire.Node, `process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 5000);`, nil,
			wire.Run{ExitCode: 143, Signal: "SIGTERM"}, "", "\x00"},
		"A43 node: arguments": {
			wire.Node, `import { fileURLToPath } from 'node:url';
console.log(process.argv[1] === fileURLToPath(import.meta.url), process.argv.slice(2), process.execArgv);`,
			func(r *wire.RunRequest) { r.Args = []string{"--one", "two"} }, wire.Run{Stdout: "true [ '--one', 'two' ] []\n"}, "null", ""},
		"A43 python: arguments and main module": {
			wire.Python, "import sys\nprint(sys.argv[0] == __file__, sys.argv[1:], __name__, sys.modules['__main__'].__file__ == __file__)\n",
			func(r *wire.RunRequest) { r.Args = []string{"--one", "two"} }, wire.Run{Stdout: "True ['--one', 'two'] __main__ True\n"}, "null", ""},
		"node: standard input and environment": {
			wire.Node, `import fs from 'node:fs'; console.log(fs.readFileSync(0, 'utf8'), process.env.COLOUR);`,
			func(r *wire.RunRequest) { r.Stdin, r.Env = []byte("typed"), map[string]string{"COLOUR": "red"} },
			wire.Run{Stdout: "typed red\n"}, "null", ""},
		"python: standard input and environment": {
			wire.Python, "import os, sys\nprint(sys.stdin.read(), os.environ['COLOUR'])\n",
			func(r *wire.RunRequest) { r.Stdin, r.Env = []byte("typed"), map[string]string{"COLOUR": "red"} },
			wire.Run{Stdout: "typed red\n"}, "null", ""},
		"X23 node: files beside the program": {
			wire.Node, `import fs from 'node:fs'; import { x } from './lib/own.mjs'; console.log(x, fs.readFileSync('data.txt', 'utf8'));`,
			func(r *wire.RunRequest) {
				r.Files = []wire.File{{Path: "lib/own.mjs", Content: []byte("export const x = 7;")}, {Path: "data.txt", Content: []byte("data")}}
			}, wire.Run{Stdout: "7 data\n"}, "null", ""},
		"X23, G20 python: files beside the program, named like the host's": {
			wire.Python, "import call, run, sandbox_json\nprint(call.x, run.x, sandbox_json.x, open('data.txt').read())\n",
			func(r *wire.RunRequest) {
				own := []byte("x = 7\n")
				r.Files = []wire.File{{Path: "call.py", Content: own}, {Path: "run.py", Content: own},
					{Path: "sandbox_json.py", Content: own}, {Path: "data.txt", Content: []byte("data")}}
			}, wire.Run{Stdout: "7 7 7 data\n"}, "null", ""},
		"node: the result is the default export": {
			wire.Node, `export default { n: 1 };`, nil, wire.Run{}, `{"n":1}`, ""},
		"node: a promised result is awaited": {
			wire.Node, `export default new Promise((r) => setTimeout(r, 5, [1, 2]));`, nil, wire.Run{}, `[1,2]`, ""},
		"node: a function is no result": {
			wire.Node, `export default function main() {}`, nil, wire.Run{}, `null`, ""},
		"python: the result is a variable": {
			wire.Python, "result = {'n': [1, None]}\n", nil, wire.Run{}, `{"n":[1,null]}`, ""},
		"python: a result without JSON form": {
			wire.Python, "result = object()\n", nil, wire.Run{ResultError: "TypeError: Object of type object is not JSON serializable"}, "", ""},
		"node: a result without JSON form": {
			wire.Node, `const a = {}; a.a = a; export default Symbol('x');`, nil, wire.Run{ResultError: "TypeError: a symbol is not JSON-serializable"}, "", ""},
		"node: timers run to their end": {
			wire.Node, `setTimeout(() => console.log("late"), 20); console.log("early");`, nil, wire.Run{Stdout: "early\nlate\n"}, "null", ""},
		"python: threads run to their end": {
			wire.Python, "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()\nprint('early')\n", nil,
			wire.Run{Stdout: "early\nlate\n"}, "null", ""},
		"python: worker processes": {
			wire.Python, "import multiprocessing\ndef square(x): return x * x\nif __name__ == '__main__':\n  multiprocessing.set_start_method('spawn')\n  with multiprocessing.Pool(2) as pool: result = pool.map(square, [2, 3])\n", nil,
			wire.Run{}, "[4,9]", ""},
		"node: child processes and threads are not the preload's": {
			wire.Node, `import { fork } from 'node:child_process'; import { Worker, isMainThread } from 'node:worker_threads'; import { fileURLToPath } from 'node:url';
const self = fileURLToPath(import.meta.url);
if (process.argv[2] === 'child' || !isMainThread) console.log(typeof iii, isMainThread);
else { await new Promise((r) => fork(self, ['child']).on('exit', r)); await new Promise((r) => new Worker(self).on('exit', r)); }`, nil,
			wire.Run{Stdout: "undefined true\nobject false\n"}, "null", ""},
		"python: an own exception hook": {
			wire.Python, "import sys\nsys.excepthook = lambda t, v, b: print('hooked', v)\nraise ValueError('x')\n", nil,
			wire.Run{Stdout: "hooked x\n", ExitCode: 1}, "", ""},
	}
	shared := newGuest(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			guest := *shared
			guest.t = t
			var changes []func(*wire.RunRequest)
			if tc.change != nil {
				changes = append(changes, tc.change)
			}
			reply := guest.run(tc.language, tc.source, changes...)
			got := *reply.Run
			if tc.wantStderr != "" {
				if !strings.Contains(got.Stderr, strings.Trim(tc.wantStderr, "\x00")) {
					t.Errorf("stderr lacks %q:\n%s", tc.wantStderr, got.Stderr)
				}
				if strings.Contains(got.Stderr, "/hosts") {
					t.Errorf("stderr shows the host:\n%s", got.Stderr)
				}
				got.Stderr = ""
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
			if string(reply.Result) != tc.wantResult {
				t.Errorf("result: want %s, got %s", tc.wantResult, reply.Result)
			}
		})
	}
	if left, _ := os.ReadDir(filepath.Join(shared.home, "runs")); len(left) > 0 {
		t.Errorf("%d run folders left", len(left))
	}
}

func TestRun_deadlineKeepsPartialOutput(t *testing.T) {
	guest := newGuest(t)
	for language, source := range map[wire.Language]string{
		wire.Node:   `console.log("before"); for (;;);`,
		wire.Python: "print('before')\nwhile True: pass\n",
	} {
		reply := guest.run(language, source, func(r *wire.RunRequest) { r.TimeoutMs = deadline.Milliseconds() })
		want := &wire.Run{Stdout: "before\n", ExitCode: -1, TimedOut: true}
		if diff := cmp.Diff(want, reply.Run); diff != "" {
			t.Errorf("%s (-want +got):\n%s", language, diff)
		}
	}
}

// A program that ended in time has ended, even if the deadline passes while its
// interpreter cleans up; that has a bound of its own.
func TestRun_deadlineDuringTheExit(t *testing.T) {
	const timeoutMs, forEver = 3_000, 600_000
	sources := map[wire.Language]string{
		wire.Node: `process.on('exit', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, MS)); export default 1; console.log('out');`,
		// Globals go after the functions of atexit.
		wire.Python: "import time\nclass Slow:\n  def __del__(self, sleep=time.sleep): sleep(MS / 1000)\nslow, result = Slow(), 1\nprint('out')\n",
	}
	for language, source := range sources {
		for cleanUpMs, wantTimedOut := range map[int]bool{timeoutMs: false, forEver: true} {
			t.Run(string(language)+", "+strconv.Itoa(cleanUpMs), func(t *testing.T) {
				t.Parallel()
				source := strings.Replace(source, "MS", strconv.Itoa(cleanUpMs), 1)
				reply := newGuest(t).run(language, source, func(r *wire.RunRequest) { r.TimeoutMs = timeoutMs })
				if reply.Run.TimedOut != wantTimedOut || (reply.Run.ExitCode == 0) == wantTimedOut {
					t.Errorf("want timed out %t after %d ms, got %+v", wantTimedOut, reply.DurationMs, reply.Run)
				}
				if string(reply.Result) != "1" || reply.Run.Stdout != "out\n" {
					t.Errorf("got %s %+v", reply.Result, reply.Run)
				}
			})
		}
	}
}

func TestRun_floodIsBoundedAndMarked(t *testing.T) {
	guest := newGuest(t)
	tests := map[string]struct {
		source string
		change func(*wire.RunRequest)
		limit  int
	}{
		"as much as a reply holds": {"import sys\nfor i in range(300000): print('line', i)\nfor i in range(300000): print('error', i, file=sys.stderr)\n", func(*wire.RunRequest) {}, 800 << 10},
		"what JSON makes longer":   {"import sys\nsys.stdout.write('\\x01' * 700000)\nfor i in range(100): print('error', i, file=sys.stderr)\n", func(*wire.RunRequest) {}, 800 << 10},
		"the request's own limit":  {"for i in range(300000): print('line', i)\n", func(r *wire.RunRequest) { r.StdoutLimit = 1000 }, 1100},
	}
	for name, tc := range tests {
		reply := guest.run(wire.Python, tc.source, tc.change)
		if !reply.Run.StdoutTruncated || !strings.Contains(reply.Run.Stdout, "bytes left out") {
			t.Errorf("%s: no marker", name)
		}
		if size := len(reply.Run.Stdout) + len(reply.Run.Stderr); size > tc.limit {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}

func TestRun_fullOutputUpToTheFrame(t *testing.T) {
	guest := newGuest(t)
	reply := guest.run(wire.Node, `process.stdout.write("x".repeat(700000));`)
	if len(reply.Run.Stdout) != 700000 || reply.Run.StdoutTruncated {
		t.Errorf("got %d bytes, truncated %t", len(reply.Run.Stdout), reply.Run.StdoutTruncated)
	}
}

// F26: large input while the program prints more than pipes hold.
func TestRun_inputAndOutputAtOnce(t *testing.T) {
	guest := newGuest(t)
	input := []byte(strings.Repeat("input line\n", 300_000))
	for language, source := range map[wire.Language]string{
		wire.Node: `import fs from 'node:fs'; for (let i = 0; i < 20000; i++) fs.writeSync(1, 'x'.repeat(20)); for (let i = 0; i < 20000; i++) fs.writeSync(2, 'y'.repeat(20));
export default fs.readFileSync(0).length;`,
		wire.Python: "import sys\nsys.stdout.write('x' * 400000)\nsys.stderr.write('y' * 400000)\nresult = len(sys.stdin.buffer.read())\n",
	} {
		reply := guest.run(language, source, func(r *wire.RunRequest) { r.Stdin = input[:3<<20] })
		if string(reply.Result) != "3145728" || reply.Run.ExitCode != 0 {
			t.Errorf("%s: %s, exit code %d", language, reply.Result, reply.Run.ExitCode)
		}
	}
}

func TestRun_keptFolder(t *testing.T) {
	guest := newGuest(t)
	folder := filepath.Join(t.TempDir(), "work")
	first := func(r *wire.RunRequest) {
		r.Folder = folder
		r.Files = []wire.File{{Path: "given.txt", Content: []byte("given")}}
	}
	guest.run(wire.Python, "open('made.txt', 'w').write(open('given.txt').read())\n", first)
	reply := guest.run(wire.Node, `import fs from 'node:fs'; export default [fs.readFileSync('made.txt', 'utf8'), fs.readdirSync('.').length];`,
		func(r *wire.RunRequest) { r.Folder = folder })
	if string(reply.Result) != `["given",2]` {
		t.Errorf("want the first run's file and this program only, got %s: %s", reply.Result, reply.Run.Stderr)
	}
}

func TestRun_backgroundProcesses(t *testing.T) {
	guest := newGuest(t)
	source := "import subprocess\nresult = subprocess.Popen(['sleep', '600'], start_new_session=True).pid\n"
	pidOf := func(reply wire.Reply) int {
		var pid int
		if err := json.Unmarshal(reply.Result, &pid); err != nil {
			t.Fatalf("%v: %s", err, reply.Run.Stderr)
		}
		return pid
	}
	alive := func(pid int) bool {
		command, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		return err == nil && strings.TrimSpace(string(command)) == "sleep"
	}
	if pid := pidOf(guest.run(wire.Python, source)); alive(pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("a process outlived a run that keeps none")
	}
	pid := pidOf(guest.run(wire.Python, source, func(r *wire.RunRequest) { r.KeepProcesses = true }))
	if !alive(pid) {
		t.Error("a kept process is gone")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestRun_refusal(t *testing.T) {
	guest := newGuest(t)
	tests := map[string]wire.RunRequest{
		"an empty source":               {Language: wire.Node, TimeoutMs: 1},
		"an unknown language":           {Language: "perl", Source: "1", TimeoutMs: 1},
		"no deadline":                   {Language: wire.Node, Source: "1"},
		"a relative folder":             {Language: wire.Node, Source: "1", TimeoutMs: 1, Folder: "here"},
		"a file that leaves its folder": {Language: wire.Node, Source: "1", TimeoutMs: 1, Files: []wire.File{{Path: "../x"}}},
		"a mode that is not octal":      {Language: wire.Node, Source: "1", TimeoutMs: 1, Files: []wire.File{{Path: "x", Mode: "rw"}}},
	}
	for name, request := range tests {
		if reply := guest.exec(wire.CommandRun, request); reply.Error == nil || reply.Error.Kind != wire.BadRequest {
			t.Errorf("%s: got %+v", name, reply)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(guest.home, "runs")); len(left) > 0 {
		t.Errorf("%d run folders left", len(left))
	}
}
