package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestCall_deadlineLeavesNoProcess(t *testing.T) {
	mark := "1234" + freshName()[:8]
	sources := map[string]struct {
		language wire.Language
		source   string
	}{
		"node in a loop with children": {wire.Node, `import { spawn } from 'node:child_process';
export function handler() { console.log('started'); spawn('sh', ['-c', 'sleep 600'], {env: {PATH: '/usr/bin:/bin', MARK: 'MARK'}});
spawn('setsid', ['sleep', '600'], {detached: true, env: {PATH: '/usr/bin:/bin', MARK: 'MARK'}}); for (;;); }`},
		"python asleep with children": {wire.Python, "import subprocess, time\ndef handler(p):\n  print('started', flush=True)\n  env = {'PATH': '/usr/bin:/bin', 'MARK': 'MARK'}\n  subprocess.Popen(['sleep', '600'], env=env)\n  subprocess.Popen(['setsid', 'sleep', '600'], start_new_session=True, env=env)\n  time.sleep(600)\n"},
	}
	inAllWays(t, func(t *testing.T, guest *guest) {
		for name, tc := range sources {
			source := strings.ReplaceAll(tc.source, "'MARK'", "'"+mark+"'")
			request := callRequest(tc.language, guest.mustPlant(tc.language, source), "0")
			request.TimeoutMs = deadline.Milliseconds()
			reply := guest.invoke(request)
			if reply.Error == nil || reply.Error.Kind != wire.TimedOut {
				t.Errorf("%s: want a timeout, got %s %v", name, reply.Result, reply.Error)
			}
			if !strings.Contains(reply.Logs, "started") {
				t.Errorf("%s: logs before the deadline are lost: %q", name, reply.Logs)
			}
			if left := processesWith("MARK=" + mark); len(left) > 0 {
				t.Errorf("%s: processes left: %v", name, left)
			}
		}
	})
}

// processesWith lists processes with an environment variable.
func processesWith(variable string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		content, _ := os.ReadFile(file)
		for _, entry := range strings.Split(string(content), "\x00") {
			if entry == variable {
				found = append(found, file)
			}
		}
	}
	return found
}

func TestCall_endsWithTheAgent(t *testing.T) {
	guest := newGuest(t)
	mark := freshName()
	source := "import time\ndef handler(p): time.sleep(600)\n"
	request := callRequest(wire.Python, guest.mustPlant(wire.Python, source), "0")
	request.TimeoutMs, request.Env = 60_000, map[string]string{"MARK": mark}
	body, _ := wire.Marshal(request)
	command := exec.Command(filepath.Join(guest.home, "agent"), "call")
	command.Env, command.Stdin = guest.env, strings.NewReader(string(body))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the interpreter runs", func() bool { return len(processesWith("MARK="+mark)) > 0 })
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	eventually(t, "the interpreter is gone", func() bool { return len(processesWith("MARK="+mark)) == 0 })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(testTimeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-limit:
			t.Fatalf("timed out waiting until %s", what)
		case <-tick.C:
		}
	}
}

func TestCall_concurrent(t *testing.T) {
	inAllWays(t, func(t *testing.T, guest *guest) {
		node := guest.mustPlant(wire.Node, `export const handler = (p) => p * 2;`)
		python := guest.mustPlant(wire.Python, "def handler(p): return p * 2\n")
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				language, digest := wire.Node, node
				if i%2 == 0 {
					language, digest = wire.Python, python
				}
				body, _ := wire.Marshal(guest.way.of(callRequest(language, digest, fmt.Sprint(i))))
				reply, err := guest.execRaw(body, wire.CommandCall)
				if err != nil || string(reply.Result) != fmt.Sprint(2*i) {
					t.Errorf("call %d: %s %v %v", i, reply.Result, reply.Error, err)
				}
			})
		}
		calls.Wait()
	})
}

func TestCall_largePayloadByRequestFile(t *testing.T) {
	inAllWays(t, func(t *testing.T, guest *guest) {
		sources := map[wire.Language]string{
			wire.Node:   `export const handler = (p) => [p.length, p.at(-1)];`,
			wire.Python: "def handler(p): return [len(p), p[-1]]\n",
		}
		payload := `"` + strings.Repeat("é", 5<<20) + `z"`
		for language, source := range sources {
			body, err := wire.Marshal(guest.way.of(callRequest(language, guest.mustPlant(language, source), payload)))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(guest.home, "requests", "one.json")
			if err := writeAtomically(path, body, 0o600); err != nil {
				t.Fatal(err)
			}
			reply, err := guest.execRaw(nil, wire.CommandCall, requestFileFlag, path)
			if want := fmt.Sprintf(`[%d,"z"]`, 5<<20+1); err != nil || string(reply.Result) != want {
				t.Errorf("%s: want %s, got %s %v %v", language, want, reply.Result, reply.Error, err)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("%s: the request file is still there", language)
			}
		}
	})
}

func TestCall_largeResults(t *testing.T) {
	inAllWays(t, func(t *testing.T, guest *guest) {
		tests := map[string]struct {
			bytes    int
			wantFile bool
			wantKind wire.FailureKind
		}{
			"256 KiB comes in the reply": {256 << 10, false, ""},
			"2 MiB comes by file":        {2 << 20, true, ""},
			"9 MiB is refused":           {9 << 20, false, wire.ResultTooLarge},
		}
		digests := map[wire.Language]string{
			wire.Node:   guest.mustPlant(wire.Node, `export const handler = (n) => "x".repeat(n);`),
			wire.Python: guest.mustPlant(wire.Python, "def handler(n): return 'x' * n\n"),
		}
		for name, tc := range tests {
			for language, digest := range digests {
				t.Run(name+", "+string(language), func(t *testing.T) {
					reply := guest.invoke(callRequest(language, digest, fmt.Sprint(tc.bytes)))
					want := `"` + strings.Repeat("x", tc.bytes) + `"`
					switch {
					case tc.wantKind != "":
						if reply.Error == nil || reply.Error.Kind != tc.wantKind {
							t.Errorf("want %s, got %v", tc.wantKind, reply.Error)
						}
					case tc.wantFile:
						checkResultFile(t, guest, reply, want)
					case string(reply.Result) != want:
						t.Errorf("got %d bytes, %v", len(reply.Result), reply.Error)
					}
				})
			}
		}
	})
}

func checkResultFile(t *testing.T, guest *guest, reply wire.Reply, want string) {
	t.Helper()
	if reply.ResultFile == nil {
		t.Fatalf("no result file: %v", reply.Error)
	}
	content, err := os.ReadFile(reply.ResultFile.Path)
	if err != nil || string(content) != want {
		t.Fatalf("the file holds %d bytes, %v", len(content), err)
	}
	if reply.ResultFile.Size != int64(len(want)) || reply.ResultFile.SHA256 != digestOf(want) {
		t.Errorf("wrong size or digest: %+v", reply.ResultFile)
	}
	if reply := guest.exec(wire.CommandDiscard, wire.DiscardRequest{Path: reply.ResultFile.Path}); reply.Error != nil {
		t.Error(reply.Error)
	}
	if _, err := os.Stat(reply.ResultFile.Path); !os.IsNotExist(err) {
		t.Error("the result file is still there")
	}
}

func TestCall_floodOfPrintsIsMarked(t *testing.T) {
	inAllWays(t, func(t *testing.T, guest *guest) {
		source := "def handler(p):\n  print('first')\n  for i in range(200000): print('line', i)\n  print('last')\n  return 'ok'\n"
		reply := guest.call(wire.Python, source, "0")
		if string(reply.Result) != `"ok"` || !reply.LogsTruncated {
			t.Fatalf("got %s, truncated %t, %v", reply.Result, reply.LogsTruncated, reply.Error)
		}
		if !strings.HasPrefix(reply.Logs, "first\n") || !strings.HasSuffix(reply.Logs, "last\n") || !strings.Contains(reply.Logs, "bytes left out") {
			t.Errorf("logs lack beginning, end or marker: %d bytes", len(reply.Logs))
		}
	})
}
