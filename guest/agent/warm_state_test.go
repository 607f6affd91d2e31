package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// What these handlers see before they spoil it is what the first call saw.
var spoilers = map[wire.Language]string{
	wire.Node: `import fs from 'node:fs';
let count = 0;
const seen = [];
export function handler() {
  const fds = fs.readdirSync('/proc/self/fd').map((fd) => { try { return fs.readlinkSync('/proc/self/fd/' + fd); } catch { return ''; } });
  const found = { count, seen: seen.length, env: process.env.SPOILT ?? null, trace: process.env.TRACEPARENT ?? null, cwd: process.cwd().split('/').at(-1).length,
    spoilt: fds.filter((path) => path.includes('spoilt')).length, builtin: JSON.stringify([1]), max: Math.max(1, 2), timers: globalThis.fired ?? 0, umask: process.umask() };
  count++; seen.push(1); process.env.SPOILT = 'yes'; process.env.TRACEPARENT = 'mine'; process.chdir('/'); process.umask(0o77);
  globalThis.file = fs.openSync('SPOILT', 'w'); JSON.stringify = () => '"forged"'; Math.max = () => 0; setInterval(() => { globalThis.fired = 1; }, 1);
  return found;
}`,
	wire.Python: `import builtins, json, os, random, signal, sys, threading
count, seen = 0, []
def handler(p):
    global count
    fds = []
    for fd in os.listdir('/proc/self/fd'):
        try: fds.append(os.readlink('/proc/self/fd/' + fd))
        except OSError: pass
    mask = os.umask(0); os.umask(mask)
    found = dict(count=count, seen=len(seen), env=os.environ.get('SPOILT'), trace=os.environ.get('TRACEPARENT'), cwd=len(os.path.basename(os.getcwd())),
        spoilt=sum('spoilt' in path for path in fds), builtin=json.dumps([1]), max=max(1, 2), timers=threading.active_count(), umask=mask,
        alarm=signal.getitimer(signal.ITIMER_REAL)[0], path='/spoilt' in sys.path, module='spoilt' in sys.modules)
    count += 1; seen.append(1); os.environ['SPOILT'] = 'yes'; os.environ['TRACEPARENT'] = 'mine'; os.chdir('/'); os.umask(0o77)
    builtins.file = open('SPOILT', 'w'); builtins.max = lambda *a: 0; sys.path.insert(0, '/spoilt'); sys.modules['spoilt'] = sys
    signal.setitimer(signal.ITIMER_REAL, 600); threading.Thread(target=signal.pause, daemon=True).start()
    return found
`,
}

func TestWarm_stateNeverCrossesCalls(t *testing.T) {
	for language, source := range spoilers {
		t.Run(string(language), func(t *testing.T) {
			spoilt := filepath.Join(t.TempDir(), "spoilt")
			source := strings.ReplaceAll(source, "SPOILT'", spoilt+"'")
			source = strings.NewReplacer("process.env."+spoilt, "process.env.SPOILT").Replace(source)
			cold := newGuestOf(t, ways[0])
			want := cold.invoke(callRequest(language, cold.mustPlant(language, source), "0"))
			if want.Error != nil || !strings.Contains(string(want.Result), `"spoilt":0`) {
				t.Fatalf("cold: %s %v", want.Result, want.Error)
			}
			warm := newGuestOf(t, ways[1])
			request := callRequest(language, warm.mustPlant(language, source), "0")
			for range 4 {
				got := warm.invoke(request)
				if diff := cmp.Diff(string(want.Result), string(got.Result)); diff != "" {
					t.Errorf("what a call finds (-cold +%s):\n%s", got.Start, diff)
				}
			}
		})
	}
}

// What makes a call different is there at once, and only there.
func TestWarm_callsOwnEnvironment(t *testing.T) {
	sources := map[wire.Language]string{
		wire.Node:   `const early = process.env.TRACEPARENT ?? null; export const handler = () => [early, process.env.TRACEPARENT ?? null, process.env.III_WORKER_NAME ?? null];`,
		wire.Python: "import os\nearly = os.environ.get('TRACEPARENT')\ndef handler(p): return [early, os.environ.get('TRACEPARENT'), os.environ.get('III_WORKER_NAME')]\n",
	}
	for _, way := range ways[1:] {
		guest := newGuestOf(t, way)
		for language, source := range sources {
			request := callRequest(language, guest.mustPlant(language, source), "0")
			guest.invoke(request)
			for i := range 3 {
				request.Context.Traceparent, request.WorkerName = fmt.Sprint("trace-", i), fmt.Sprint("worker-", i)
				want := fmt.Sprintf(`[null,"trace-%d","worker-%d"]`, i, i)
				if reply := guest.invoke(request); string(reply.Result) != want {
					t.Errorf("%s, %s: want %s, got %s %v", way.name, language, want, reply.Result, reply.Error)
				}
			}
			request.Context.Traceparent, request.WorkerName = "", ""
			if reply := guest.invoke(request); string(reply.Result) != `[null,null,null]` {
				t.Errorf("%s, %s: without: %s %v", way.name, language, reply.Result, reply.Error)
			}
		}
	}
}

// Every fork has numbers of its own.
func TestWarm_randomness(t *testing.T) {
	guest := newGuestOf(t, ways[1])
	source := `import random, ssl, uuid, tempfile, secrets
early = random.random(), uuid.uuid1()
def handler(p): return [random.random(), str(uuid.uuid4()), str(uuid.uuid1()), ssl.RAND_bytes(8).hex(), next(tempfile._get_candidate_names()), secrets.token_hex(8)]
`
	guest.drawsAnew(t, source, 6)
}

// drawsAnew checks that each call of a Python handler, which returns so many random
// values, is a fork that draws its own.
func (g *guest) drawsAnew(t *testing.T, source string, values int) {
	t.Helper()
	request := callRequest(wire.Python, g.mustPlant(wire.Python, source), "0")
	seen := map[string]bool{}
	const calls = 5
	for range calls {
		reply := g.invoke(request)
		var drawn []json.RawMessage
		if err := json.Unmarshal(reply.Result, &drawn); err != nil || reply.Start != wire.StartForked {
			t.Fatalf("%s: %s %v", reply.Start, reply.Result, reply.Error)
		}
		for _, each := range drawn {
			seen[string(each)] = true
		}
	}
	if want := values * calls; len(seen) != want {
		t.Errorf("want %d different values, got %d", want, len(seen))
	}
}

// A source that leaves what forks would share gets processes of its own; its calls
// are served all the same.
func TestWarm_whatCannotBeForked(t *testing.T) {
	sources := map[string]string{
		"threads":       "import threading, signal\nthreading.Thread(target=signal.pause, daemon=True).start()\n",
		"sockets":       "import socket\ns = socket.socket()\n",
		"files":         "f = open('/etc/passwd')\n",
		"children":      "import subprocess\np = subprocess.Popen(['sleep', '600'])\n",
		"orphans":       "import subprocess\nsubprocess.run(['sh', '-c', 'setsid sleep 600 >/dev/null 2>&1 &'])\n",
		"shared memory": "import mmap\nm = mmap.mmap(-1, 4096)\n",
	}
	guest := newGuestOf(t, ways[1])
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			guest := *guest
			guest.t = t
			request := callRequest(wire.Python, guest.mustPlant(wire.Python, source+"def handler(p): return p\n"), "7")
			for range 2 {
				if reply := guest.invoke(request); reply.Start != wire.StartReady || string(reply.Result) != "7" {
					t.Errorf("got %s %s %v", reply.Start, reply.Result, reply.Error)
				}
			}
		})
	}
}

// Loading that fails where it succeeded before leaves the calls cold, and their
// error is the true one.
func TestWarm_loadingFails(t *testing.T) {
	sources := map[string]struct {
		language wire.Language
		source   string
		want     wire.FailureKind
	}{
		"node throws":   {wire.Node, "import fs from 'node:fs'; if (fs.existsSync('FLAG')) throw new Error('no');\nexport const handler = () => 1;", wire.LoadFailed},
		"node exits":    {wire.Node, "import fs from 'node:fs'; if (fs.existsSync('FLAG')) process.exit(3);\nexport const handler = () => 1;", wire.NoResult},
		"node hangs":    {wire.Node, "import fs from 'node:fs'; if (fs.existsSync('FLAG')) for (;;);\nexport const handler = () => 1;", wire.TimedOut},
		"python throws": {wire.Python, "import os\nif os.path.exists('FLAG'): raise OSError('no')\ndef handler(p): return 1\n", wire.LoadFailed},
		"python exits":  {wire.Python, "import os\nif os.path.exists('FLAG'): os._exit(3)\ndef handler(p): return 1\n", wire.NoResult},
		"python hangs":  {wire.Python, "import os, time\nif os.path.exists('FLAG'): time.sleep(600)\ndef handler(p): return 1\n", wire.TimedOut},
	}
	for _, way := range ways[1:] {
		guest := newGuestOf(t, way)
		for name, tc := range sources {
			flag := filepath.Join(t.TempDir(), "flag")
			digest := guest.mustPlant(tc.language, strings.ReplaceAll(tc.source, "FLAG", flag))
			request := way.of(callRequest(tc.language, digest, "0"))
			if reply := guest.invoke(request); string(reply.Result) != "1" {
				t.Fatalf("%s, %s: %s %v", way.name, name, reply.Result, reply.Error)
			}
			if err := os.WriteFile(flag, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			guest.exec(wire.CommandSetup, wire.SetupRequest{Command: "true", TimeoutMs: testTimeout.Milliseconds()})
			request.TimeoutMs = 3000
			eventually(t, name+" is seen", func() bool {
				reply := guest.exec(wire.CommandCall, request)
				return reply.Error != nil && reply.Error.Kind == tc.want && reply.Start == wire.StartCold
			})
		}
	}
}

func TestWarm_sharedKeepsWhatIsItsOwn(t *testing.T) {
	sources := map[wire.Language]string{
		wire.Node: `let count = 0; export const handler = (p) => { console.log('call', p); if (p === 'crash') process.exit(4); if (p === 'background') setTimeout(() => { count += 10; console.log('late'); }, 100);
return ++count; };`,
		wire.Python: "import asyncio, os\ncount = 0\nasync def later():\n  global count\n  await asyncio.sleep(0.1)\n  count += 10\n  print('late')\n" +
			"async def handler(p):\n  global count\n  print('call', p)\n  if p == 'crash': os._exit(4)\n  if p == 'background': asyncio.create_task(later())\n  count += 1\n  return count\n",
	}
	guest := newGuestOf(t, ways[2])
	for language, source := range sources {
		t.Run(string(language), func(t *testing.T) {
			guest := *guest
			guest.t = t
			request := callRequest(language, guest.mustPlant(language, source), `"a"`)
			first := guest.invoke(request)
			for i, name := range []string{"b", "c", "background"} {
				request.Payload = json.RawMessage(`"` + name + `"`)
				reply := guest.invoke(request)
				if string(reply.Result) != fmt.Sprint(valueOf(first)+i+1) || reply.Logs != "call "+name+"\n" {
					t.Errorf("%s: %s %q %v", name, reply.Result, reply.Logs, reply.Error)
				}
			}
			request.Payload = json.RawMessage(`"d"`)
			eventually(t, "what a call has left behind goes on", func() bool {
				reply := guest.invoke(request)
				return strings.Contains(reply.Logs, "late") && valueOf(reply) > 10
			})
			request.Payload = json.RawMessage(`"crash"`)
			if reply := guest.invoke(request); reply.Error == nil || reply.Error.Kind != wire.NoResult || *reply.Error.ExitCode != 4 || reply.Logs != "call crash\n" && language == wire.Node {
				t.Errorf("crash: %s %+v %q", reply.Result, reply.Error, reply.Logs)
			}
			request.Payload = json.RawMessage(`"e"`)
			if reply := guest.invoke(request); string(reply.Result) != "1" || reply.Logs != "call e\n" {
				t.Errorf("after the crash: %s %v %q", reply.Result, reply.Error, reply.Logs)
			}
		})
	}
}

func valueOf(reply wire.Reply) int {
	var value int
	_ = json.Unmarshal(reply.Result, &value)
	return value
}

func TestWarm_burst(t *testing.T) {
	const calls = 64
	for _, way := range ways[1:] {
		guest := newGuestOf(t, way)
		for language, source := range map[wire.Language]string{
			wire.Node: `export const handler = (p) => p * 2;`, wire.Python: "def handler(p): return p * 2\n",
		} {
			digest := guest.mustPlant(language, source)
			guest.invoke(callRequest(language, digest, "1"))
			var replies []<-chan wire.Reply
			for i := range calls {
				request := way.of(callRequest(language, digest, fmt.Sprint(i)))
				request.TimeoutMs = (10 * testTimeout).Milliseconds() // so many interpreters on a busy machine
				replies = append(replies, guest.inBackground(wire.CommandCall, request))
			}
			var starts []string
			for i, each := range replies {
				reply := <-each
				starts = append(starts, reply.Start)
				if string(reply.Result) != fmt.Sprint(2*i) {
					t.Errorf("%s, %s, call %d: %s %v", way.name, language, i, reply.Result, reply.Error)
				}
			}
			slices.Sort(starts)
			if !slices.Contains(starts, way.starts[len(way.starts)-1]) && !slices.Contains(starts, way.starts[0]) {
				t.Errorf("%s, %s: no call was warm: %v", way.name, language, slices.Compact(starts))
			}
		}
	}
}
