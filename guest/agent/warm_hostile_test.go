package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// hostile does as the payload says and notes that it has run. Signals go only to
// processes of its own guest, which are told by the private folder.
const hostile = `import glob, os, signal, socket, subprocess, sys, time
HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
def processes(what):
    for path in glob.glob('/proc/[0-9]*'):
        try: line = open(path + '/cmdline').read().replace('\0', ' ').strip()
        except OSError: continue
        if HOME in line and what(line, int(path[6:])): yield int(path[6:])
def parents():
    pid = os.getpid()
    while pid > 1:
        pid = int(open('/proc/%d/stat' % pid).read().rpartition(')')[2].split()[1])
        yield pid
def send(number, what):
    for pid in list(processes(what)):
        try: os.kill(pid, number)
        except OSError: pass
WHO = {
    'siblings': lambda line, pid: line.endswith('start.py serve') and pid not in (os.getpid(), *parents()),
    'supervisor': lambda line, pid: line.endswith('agent serve'),
    'keepers': lambda line, pid: line.endswith('--keeper'),
    'parent': lambda line, pid: pid == os.getppid(),
    'grandparent': lambda line, pid: pid == list(parents())[1],
    'all': lambda line, pid: pid != os.getpid() and not line.endswith('agent call'),
}
def handler(p):
    with open(p['ran'], 'a') as file: file.write(p['id'] + '\n')
    if p['act'] in ('kill', 'stop'):
        send(signal.SIGKILL if p['act'] == 'kill' else signal.SIGSTOP, WHO[p['who']])
    elif p['act'] == 'socket':
        path = HOME + '/supervisor/socket'
        for text in (b'', b'H\0\0\0\1x', b'H\xff\xff\xff\xff', b'W\0\0\0\2{}', b'U\0\0\0\1x', b'A\0\0\0\1' + b'1', b'\0' * 4096, b'Q'):
            s = socket.socket(socket.AF_UNIX)
            s.connect(path)
            s.sendall(text)
            s.close()
    elif p['act'] == 'replace':
        path = HOME + '/supervisor/socket'
        os.remove(path)
        if os.fork() == 0:
            os.setsid()
            s = socket.socket(socket.AF_UNIX)
            s.bind(path)
            s.listen(8)
            open(p['ran'] + '.listening', 'w').close()
            s.settimeout(60)
            try:
                c, _ = s.accept()
                open(p['ran'] + '.heard', 'wb').write(c.recv(4096))
            finally: os._exit(0)
        while not os.path.exists(p['ran'] + '.listening'): time.sleep(0.01)
    elif p['act'] == 'frames':
        for text in (b'Y\0\0\0\2{}', b'B\0\0\0\0', b'B\0\0\0\0', b'?' * 64):
            os.write(4, text)
    elif p['act'] == 'others':
        reached = []
        for pid in processes(lambda line, pid: pid != os.getpid()):
            try: targets = glob.glob('/proc/%d/fd/*' % pid) + ['/proc/%d/mem' % pid]
            except OSError: continue
            for target in targets:
                try: fd = os.open(target, os.O_RDWR)
                except OSError: continue
                reached.append(open('/proc/%d/cmdline' % pid).read()[-20:])
                os.close(fd)
        return len(reached)
    elif p['act'] == 'leak':
        for command in (['sleep', '600'], ['setsid', 'sleep', '600'], ['sh', '-c', 'setsid setsid sleep 600 &']):
            subprocess.Popen(command, env={'PATH': os.environ['PATH'], 'MARK': p['mark']})
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execve('/bin/sleep', ['sleep', '600'], {'MARK': p['mark']})
            os._exit(0)
    elif p['act'] == 'late fork':
        import threading
        def later():
            while True: subprocess.Popen(['setsid', 'sleep', '600'], env={'PATH': os.environ['PATH'], 'MARK': p['mark']})
        threading.Thread(target=later, daemon=True).start()
    return p['id']
`

type hostileGuest struct {
	*guest
	request wire.CallRequest
	ran     string
	calls   int
}

func newHostileGuest(t *testing.T, way way) *hostileGuest {
	g := newGuestOf(t, way)
	request := callRequest(wire.Python, g.mustPlant(wire.Python, hostile), "0")
	request.TimeoutMs = 20_000
	return &hostileGuest{guest: g, request: way.of(request), ran: filepath.Join(t.TempDir(), "ran")}
}

func (g *hostileGuest) payload(act string, more ...string) (wire.CallRequest, string) {
	g.calls++
	id := fmt.Sprint("call-", g.calls)
	request := g.request
	fields := map[string]string{"act": act, "ran": g.ran, "id": id}
	for i := 0; i+1 < len(more); i += 2 {
		fields[more[i]] = more[i+1]
	}
	body, err := wire.Marshal(fields)
	if err != nil {
		g.t.Fatal(err)
	}
	request.Payload = body
	return request, id
}

// act makes a call, which must be answered and must have run at most once.
func (g *hostileGuest) act(act string, more ...string) wire.Reply {
	g.t.Helper()
	request, id := g.payload(act, more...)
	reply := g.exec(wire.CommandCall, request)
	content, _ := os.ReadFile(g.ran)
	if count := strings.Count("\n"+string(content), "\n"+id+"\n"); count > 1 || count == 0 && reply.Error == nil {
		g.t.Errorf("%s %v: the handler has run %d times: %s %v", act, more, count, reply.Result, reply.Error)
	}
	return reply
}

// works: the next call is as good as any, whatever the last one has done, and a
// later one finds a process that is ready again.
func (g *hostileGuest) works(after string) {
	g.t.Helper()
	if reply := g.act("nothing"); reply.Error != nil {
		g.t.Errorf("the call after %s: %v", after, reply.Error)
	}
	g.untilWarm()
}

func (g *hostileGuest) untilWarm() (reply wire.Reply) {
	g.t.Helper()
	eventually(g.t, "a call is warm", func() bool {
		reply = g.act("nothing")
		return reply.Start != wire.StartCold && reply.Error == nil
	})
	return reply
}

func TestWarm_handlerEndsOthers(t *testing.T) {
	for _, way := range ways[1:] {
		t.Run(way.name, func(t *testing.T) {
			g := newHostileGuest(t, way)
			for _, act := range []string{"kill", "stop"} {
				for _, who := range []string{"siblings", "supervisor", "keepers", "parent", "grandparent", "all"} {
					t.Log(act, who)
					g.untilWarm()
					g.act(act, "who", who)
					g.works(act + " " + who)
				}
			}
			// What was stopped is not of use to anybody, and must not stay either.
			for _, pid := range g.pids() {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		})
	}
}

func (g *guest) pids() (found []int) {
	for _, each := range g.processes() {
		pid, _ := strconv.Atoi(strings.Fields(each)[0])
		found = append(found, pid)
	}
	return found
}

func TestWarm_handlerSpeaksForOthers(t *testing.T) {
	for _, way := range ways[1:] {
		t.Run(way.name, func(t *testing.T) {
			g := newHostileGuest(t, way)
			for _, act := range []string{"socket", "frames"} {
				g.untilWarm()
				g.act(act)
				g.works(act)
			}
			g.untilWarm()
			g.act("replace")
			g.works("putting a socket into the place of the supervisor's")
			if heard, err := os.ReadFile(g.ran + ".heard"); err == nil && len(heard) > 0 {
				t.Errorf("another listener has been told of a call: %q", heard)
			}
		})
	}
}

// Of the processes that look after calls, a handler reaches none through /proc but
// the supervisor, which has to show what it is. See isAgent.
func TestWarm_handlerReachesNoKeeper(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test drops to another user, and so needs root")
	}
	g := newHostileGuest(t, ways[1])
	g.untilWarm()
	for _, pid := range g.pids() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		keeper := strings.HasSuffix(string(line), "--keeper\x00")
		zygote := strings.HasSuffix(string(line), "serve\x00") && strings.Contains(string(line), "python")
		if !keeper && !zygote {
			continue
		}
		// Whoever has no capabilities finds these files to be none of its own.
		command := exec.Command("setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--reset-env",
			"sh", "-c", fmt.Sprintf("cat /proc/%d/environ || readlink /proc/%d/fd/0 || : < /proc/%d/fd/0", pid, pid, pid))
		if output, err := command.CombinedOutput(); err == nil {
			t.Errorf("%q can be read: %s", line, output)
		}
	}
}

func TestWarm_handlerLeaksProcesses(t *testing.T) {
	for _, way := range ways[1:2] {
		g := newHostileGuest(t, way)
		for _, act := range []string{"leak", "late fork"} {
			g.untilWarm()
			mark := freshName()
			reply := g.act(act, "mark", mark)
			if reply.Error != nil || reply.Start == wire.StartCold {
				t.Errorf("%s: %s %v", act, reply.Start, reply.Error)
			}
			if left := processesWith("MARK=" + mark); len(left) > 0 {
				t.Errorf("%s: processes left: %v", act, left)
			}
			g.works(act)
		}
	}
}

// A call goes on when its supervisor is killed, and fails, once, with its keeper.
func TestWarm_whoeverLooksAfterACallIsKilled(t *testing.T) {
	sources := map[wire.Language]string{
		wire.Node:   `import fs from 'node:fs'; export const handler = async (p) => { if (p) { fs.appendFileSync(p, 'x'); while (!fs.existsSync(p + '.go')) await new Promise((r) => setTimeout(r, 10)); } return 1; };`,
		wire.Python: "import os, time\ndef handler(p):\n  if p:\n    open(p, 'a').write('x')\n    while not os.path.exists(p + '.go'): time.sleep(0.01)\n  return 1\n",
	}
	for _, way := range ways[1:] {
		for language, source := range sources {
			guest := newGuestOf(t, way)
			request := callRequest(language, guest.mustPlant(language, source), `""`)
			for _, who := range []string{"supervisor", "keepers"} {
				guest.invoke(request)
				flag := filepath.Join(t.TempDir(), "flag")
				slow := way.of(request)
				slow.Payload, _ = wire.Marshal(flag)
				replies := guest.inBackground(wire.CommandCall, slow)
				eventually(t, "the handler runs", func() bool { _, err := os.Stat(flag); return err == nil })
				guest.killAll(who)
				if who == "supervisor" {
					if err := os.WriteFile(flag+".go", nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				reply := <-replies
				switch {
				case who == "supervisor" && string(reply.Result) != "1",
					who == "keepers" && reply.Start != wire.StartCold && (reply.Error == nil || reply.Error.Kind != wire.NoResult):
					t.Errorf("%s, %s, %s: %s %+v", way.name, language, who, reply.Result, reply.Error)
				}
				if ran, _ := os.ReadFile(flag); string(ran) != "x" {
					t.Errorf("%s, %s, %s: the handler has run %d times", way.name, language, who, len(ran))
				}
				_ = os.WriteFile(flag+".go", nil, 0o600)
			}
		}
	}
}

func (g *guest) killAll(who string) {
	for _, each := range g.processes() {
		isKeeper := strings.HasSuffix(strings.TrimSpace(each), keeperFlag)
		isSupervisor := strings.HasSuffix(strings.TrimSpace(each), "agent "+wire.CommandServe)
		if who == "keepers" && isKeeper || who == "supervisor" && isSupervisor {
			pid, _ := strconv.Atoi(strings.Fields(each)[0])
			kill(pid)
		}
	}
}

func TestWarm_cancelAndDeadline(t *testing.T) {
	sources := map[wire.Language]string{
		wire.Node:   `import { spawn } from 'node:child_process'; export const handler = (mark) => { if (mark) { console.log('started'); spawn('setsid', ['sleep', '600'], {detached: true, env: {PATH: process.env.PATH, MARK: mark}}); for (;;); } };`,
		wire.Python: "import os, subprocess, time\ndef handler(mark):\n  if mark:\n    print('started', flush=True)\n    subprocess.Popen(['setsid', 'sleep', '600'], env={'PATH': os.environ['PATH'], 'MARK': mark})\n    time.sleep(600)\n",
	}
	for _, way := range ways[1:] {
		guest := newGuestOf(t, way)
		for language, source := range sources {
			request := callRequest(language, guest.mustPlant(language, source), `""`)
			for _, how := range []string{"cancel", "deadline", "the caller's end"} {
				guest.invoke(request)
				mark := freshName()
				endless := way.of(request)
				endless.Payload, _ = wire.Marshal(mark)
				endless.Token = newToken()
				if how == "deadline" {
					endless.TimeoutMs = deadline.Milliseconds()
				}
				body, _ := wire.Marshal(endless)
				command := exec.Command(filepath.Join(guest.home, "agent"), "call")
				command.Env, command.Stdin = guest.env, strings.NewReader(string(body))
				var output strings.Builder
				command.Stdout = &output
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				if how != "deadline" {
					eventually(t, "the handler runs", func() bool { return len(processesWith("MARK="+mark)) > 0 })
				}
				switch how {
				case "cancel":
					guest.cancel(endless.Token)
					if left := processesWith("MARK=" + mark); len(left) > 0 {
						t.Errorf("%s, %s: after the cancel: %v", way.name, language, left)
					}
				case "the caller's end":
					kill(command.Process.Pid)
				}
				_ = command.Wait()
				eventually(t, "its processes are gone", func() bool { return len(processesWith("MARK="+mark)) == 0 })
				if how == "the caller's end" {
					continue
				}
				reply, err := wire.DecodeReply([]byte(output.String()))
				want := map[string]wire.FailureKind{"cancel": wire.Canceled, "deadline": wire.TimedOut}[how]
				if err != nil || reply.Error == nil || reply.Error.Kind != want || reply.Logs != "started\n" {
					t.Errorf("%s, %s, %s: %+v %v", way.name, language, how, reply, err)
				}
			}
		}
	}
}
