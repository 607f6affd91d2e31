package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func (g *guest) cancel(token string) {
	g.t.Helper()
	if reply := g.exec(wire.CommandCancel, wire.CancelRequest{Token: token}); reply.Error != nil {
		g.t.Errorf("canceling: %v", reply.Error)
	}
}

func newToken() string { return freshName() + freshName()[:8] }

// inBackground executes a request; the reply comes on the channel.
func (g *guest) inBackground(subcommand string, request any) <-chan wire.Reply {
	g.t.Helper()
	body, err := wire.Marshal(request)
	if err != nil {
		g.t.Fatal(err)
	}
	replies := make(chan wire.Reply, 1)
	go func() {
		reply, err := g.execRaw(body, subcommand)
		if err != nil {
			g.t.Errorf("agent %s: %v", subcommand, err)
		}
		replies <- reply
	}()
	return replies
}

const stubbornPython = `import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(['sleep', '600'])
subprocess.Popen(['setsid', 'sh', '-c', 'sleep 600; true'], start_new_session=True)
print('started', flush=True)
open(os.environ['FLAG'], 'w')
time.sleep(600)
`

const nodeFlag = `import fs from 'node:fs'; fs.writeSync(1, 'started\n'); fs.writeFileSync(process.env.FLAG, ''); `

func TestCancel_run(t *testing.T) {
	tests := map[string]struct {
		language wire.Language
		source   string
		keep     bool
	}{
		"python with children that left":    {wire.Python, stubbornPython, false},
		"python where processes are kept":   {wire.Python, stubbornPython, true},
		"node in a loop":                    {wire.Node, nodeFlag + `for (;;);`, false},
		"node that has sent its result":     {wire.Node, nodeFlag + `setInterval(() => {}, 1000); export default 7;`, false},
		"python whose result is on its way": {wire.Python, "import os, threading, time\nprint('started', flush=True)\nopen(os.environ['FLAG'], 'w')\nresult = 7\nthreading.Thread(target=time.sleep, args=(600,)).start()\n", false},
	}
	guest := newGuest(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			guest := *guest
			guest.t = t
			token, mark, flag := newToken(), freshName(), filepath.Join(t.TempDir(), "flag")
			replies := guest.inBackground(wire.CommandRun, wire.RunRequest{
				Language: tc.language, Source: tc.source, TimeoutMs: 60_000, Token: token,
				KeepProcesses: tc.keep, Env: map[string]string{"MARK": mark, "FLAG": flag},
			})
			eventually(t, "the program has printed", func() bool { _, err := os.Stat(flag); return err == nil })
			guest.cancel(token)
			if left := processesWith("MARK=" + mark); len(left) > 0 {
				t.Errorf("processes left: %v", left)
			}
			reply := <-replies
			if reply.Run == nil || !reply.Run.Canceled || reply.Run.TimedOut || reply.Run.ExitCode != -1 || reply.Run.Stdout != "started\n" {
				t.Errorf("got %+v %v", reply.Run, reply.Error)
			}
			guest.cancel(token)
		})
	}
	if files, _ := os.ReadDir(filepath.Join(guest.home, "runs")); len(files) > 0 {
		t.Errorf("%d run folders left", len(files))
	}
}

func TestCancel_call(t *testing.T) {
	guest := newGuest(t)
	for language, source := range map[wire.Language]string{
		wire.Node:   `export const handler = () => { console.log('started'); for (;;); };`,
		wire.Python: "import time\ndef handler(p):\n  print('started', flush=True)\n  time.sleep(600)\n",
	} {
		mark := freshName()
		request := callRequest(language, guest.mustPlant(language, source), "0")
		request.Token, request.TimeoutMs, request.Env = newToken(), 60_000, map[string]string{"MARK": mark}
		replies := guest.inBackground(wire.CommandCall, request)
		eventually(t, "the handler runs", func() bool { return len(processesWith("MARK="+mark)) > 0 })
		guest.cancel(request.Token)
		reply := <-replies
		if reply.Error == nil || reply.Error.Kind != wire.Canceled {
			t.Errorf("%s: got %s %v", language, reply.Result, reply.Error)
		}
		if left := processesWith("MARK=" + mark); len(left) > 0 {
			t.Errorf("%s: processes left: %v", language, left)
		}
	}
}

// A cancel that comes first keeps the program from starting.
func TestCancel_beforeTheStart(t *testing.T) {
	guest := newGuest(t)
	made := filepath.Join(t.TempDir(), "made")
	token := newToken()
	guest.cancel(token)
	reply := guest.run(wire.Python, "open('"+made+"', 'w')\n", func(r *wire.RunRequest) { r.Token = token })
	if !reply.Run.Canceled {
		t.Errorf("run: %+v", reply.Run)
	}
	request := callRequest(wire.Python, guest.mustPlant(wire.Python, "def handler(p): open('"+made+"', 'w')\n"), "0")
	request.Token = newToken()
	guest.cancel(request.Token)
	if reply := guest.exec(wire.CommandCall, request); reply.Error == nil || reply.Error.Kind != wire.Canceled {
		t.Errorf("call: %+v", reply)
	}
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Error("a canceled program ran")
	}
}

// However start and cancel meet, the program does not outlive the cancel.
func TestCancel_race(t *testing.T) {
	guest := newGuest(t)
	for i := range 12 {
		token, mark := newToken(), freshName()
		replies := guest.inBackground(wire.CommandRun, wire.RunRequest{
			Language: wire.Python, Source: "import time\ntime.sleep(600)\n", TimeoutMs: 60_000, Token: token, Env: map[string]string{"MARK": mark},
		})
		<-time.After(time.Duration(i) * 3 * time.Millisecond)
		guest.cancel(token)
		if reply := <-replies; reply.Run == nil || !reply.Run.Canceled {
			t.Errorf("got %+v %v", reply.Run, reply.Error)
		}
		if left := processesWith("MARK=" + mark); len(left) > 0 {
			t.Errorf("processes left: %v", left)
		}
	}
}

func TestCancel_tokens(t *testing.T) {
	guest := newGuest(t)
	for _, token := range []string{"", "x", "../../../../../../../../../etc/x", strings.Repeat("A", 32), strings.Repeat("0", 33)} {
		if reply := guest.exec(wire.CommandCancel, wire.CancelRequest{Token: token}); reply.Error == nil || reply.Error.Kind != wire.BadRequest {
			t.Errorf("cancel of %q: %+v", token, reply.Error)
		}
		if token == "" {
			continue
		}
		reply := guest.exec(wire.CommandRun, wire.RunRequest{Language: wire.Node, Source: "1", TimeoutMs: 1000, Token: token})
		if reply.Error == nil || reply.Error.Kind != wire.BadRequest {
			t.Errorf("run under %q: %+v", token, reply)
		}
	}
}

// The program learns neither its token nor one of another, and the file is not
// for others to read; a number in a file is not believed.
func TestCancel_files(t *testing.T) {
	guest := newGuest(t)
	token := newToken()
	reply := guest.run(wire.Python, `import glob, os, stat
files = glob.glob(os.environ['HOME'] + '/running/*')
result = [[oct(stat.S_IMODE(os.stat(f).st_mode)), open(f).read(), os.path.basename(f)] for f in files] + [oct(stat.S_IMODE(os.stat(os.path.dirname(files[0])).st_mode))]
result += [open('/proc/self/environ').read(), open(f'/proc/{os.getppid()}/cmdline').read()]
`, func(r *wire.RunRequest) { r.Token = token })
	if strings.Contains(string(reply.Result), token) {
		t.Errorf("the program sees the token: %s", reply.Result)
	}
	if !strings.HasPrefix(string(reply.Result), `[["0o600","","`+digestOf(token)+`"],"0o700"`) {
		t.Errorf("the file: %s %s", reply.Result, reply.Run.Stderr)
	}
	if left, _ := os.ReadDir(filepath.Join(guest.home, "running")); len(left) > 0 {
		t.Errorf("%d files left", len(left))
	}
	bystander := exec.Command("sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	forged := filepath.Join(guest.home, "running", digestOf(token))
	if err := os.WriteFile(forged, []byte(strings.Repeat("1", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	guest.cancel(token)
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the bystander: %v", err)
	}
}

func TestCancel_tokenInUse(t *testing.T) {
	guest := newGuest(t)
	token, mark := newToken(), freshName()
	request := wire.RunRequest{Language: wire.Python, Source: "import time\ntime.sleep(600)\n", TimeoutMs: 60_000, Token: token, Env: map[string]string{"MARK": mark}}
	first := guest.inBackground(wire.CommandRun, request)
	eventually(t, "the program runs", func() bool { return len(processesWith("MARK="+mark)) > 0 })
	if reply := guest.exec(wire.CommandRun, request); reply.Error == nil || reply.Error.Kind != wire.BadRequest {
		t.Errorf("a second run: %+v", reply)
	}
	var cancels sync.WaitGroup
	for range 3 {
		cancels.Go(func() {
			body, _ := wire.Marshal(wire.CancelRequest{Token: token})
			if reply, err := guest.execRaw(body, wire.CommandCancel); err != nil || reply.Error != nil {
				t.Errorf("%v %v", err, reply.Error)
			}
		})
	}
	cancels.Wait()
	if reply := <-first; reply.Run == nil || !reply.Run.Canceled {
		t.Errorf("the first run: %+v %v", reply.Run, reply.Error)
	}
}

// Files of programs that never came are removed after a while.
func TestCancel_tombstonesGo(t *testing.T) {
	guest := newGuest(t)
	guest.cancel(newToken())
	old := filepath.Join(guest.home, "running", "old")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-2 * tombstoneAge)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	guest.cancel(newToken())
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Error("an old file is still there")
	}
	if files, _ := os.ReadDir(filepath.Join(guest.home, "running")); len(files) != 2 {
		t.Errorf("want the two that may yet be needed, got %d", len(files))
	}
}

// An agent that is stopped, and so cannot answer, is killed with its program.
func TestCancel_agentThatHangs(t *testing.T) {
	guest := newGuest(t)
	token, mark := newToken(), freshName()
	body, _ := wire.Marshal(wire.RunRequest{
		Language: wire.Python, Source: "import time\ntime.sleep(600)\n", TimeoutMs: 60_000, Token: token, Env: map[string]string{"MARK": mark}})
	command := exec.Command(filepath.Join(guest.home, "agent"), "run")
	command.Env, command.Stdin = guest.env, strings.NewReader(string(body))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	eventually(t, "the program runs", func() bool { return len(processesWith("MARK="+mark)) > 0 })
	if err := command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	guest.cancel(token)
	if err := <-ended; err == nil {
		t.Error("the agent ended by itself")
	}
	eventually(t, "the program is gone", func() bool { return len(processesWith("MARK="+mark)) == 0 })
}
