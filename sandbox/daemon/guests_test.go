package daemon_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// startReal returns a daemon whose guests are real. The host's port is open to
// guests with a network.
func startReal(t *testing.T, hostPorts ...int) *daemontest.Stack {
	t.Helper()
	backend, err := namespaces.New(namespaces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("closing the back end: %v", err)
		}
	})
	config := daemontest.Config()
	config.GuestHostPorts = hostPorts
	return daemontest.Start(t, daemontest.Options{Backend: backend, Config: config})
}

// sh is an exec of a shell command.
func sh(command string) object { return object{"argv": []string{"/bin/sh", "-c", command}} }

func TestGuest_exec(t *testing.T) {
	s := startReal(t)
	id := create(t, s, object{"env": object{"CREATED": "1"}})
	for name, tc := range map[string]struct {
		request        object
		stdout, stderr string
		exit           float64
	}{
		"a command line is split without a shell": {object{"cmd": "echo 'a b' $HOME"}, "a b $HOME\n", "", 0},
		"a program and arguments":                 {object{"cmd": "echo", "args": []string{"a b"}}, "a b\n", "", 0},
		"a vector":                                {object{"argv": []string{"echo", "a b"}}, "a b\n", "", 0},
		"input in base64":                         {object{"cmd": "cat", "stdin": base64.StdEncoding.EncodeToString([]byte("in"))}, "in", "", 0},
		"no input is its end":                     {object{"cmd": "cat"}, "", "", 0},
		"an env map over that of the sandbox":     {mix(sh("echo $CREATED $A"), object{"env": object{"A": "2"}}), "1 2\n", "", 0},
		"an env list":                             {mix(sh("echo $CREATED $A"), object{"env": []string{"A=2", "CREATED=3"}}), "3 2\n", "", 0},
		"a folder to work in":                     {object{"cmd": "pwd", "workdir": "/tmp"}, "/tmp\n", "", 0},
		"the root otherwise":                      {object{"cmd": "pwd"}, "/\n", "", 0},
		"an exit code":                            {sh("echo out; echo err >&2; exit 3"), "out\n", "err\n", 3},
		"a killed program":                        {sh("kill -9 $$"), "", "", 137},
		"node":                                    {object{"argv": []string{"node", "-e", "console.log(6*7)"}}, "42\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, s, "sandbox::exec", mix(tc.request, object{"sandbox_id": id}))
			if _, measured := got["duration_ms"].(float64); !measured {
				t.Error("no duration")
			}
			delete(got, "duration_ms")
			want := object{"stdout": tc.stdout, "stderr": tc.stderr, "exit_code": tc.exit, "success": tc.exit == 0, "timed_out": false}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	for name, tc := range map[string]struct {
		argv []string
		exit float64
	}{
		"a missing program":         {[]string{"no-such-program"}, 127},
		"a file that is no program": {[]string{"/etc/passwd"}, 126},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, s, "sandbox::exec", object{"sandbox_id": id, "argv": tc.argv})
			if got["exit_code"] != tc.exit || got["stderr"] == "" {
				t.Errorf("answer is %v, want %v and an explanation", got, tc.exit)
			}
		})
	}
}

func TestGuest_execLimits(t *testing.T) {
	s := startReal(t)
	id := create(t, s, object{"image": "python"})
	exec := func(request object) object { return mix(request, object{"sandbox_id": id}) }
	refuse(t, s, "sandbox::exec", exec(mix(sh("echo lost; sleep 60"), object{"timeout_ms": 200})), "S200")
	left := call(t, s, "sandbox::exec", exec(sh("for p in /proc/[0-9]*; do cat $p/comm; done 2>/dev/null | grep -c sleep")))
	if left["stdout"] != "0\n" {
		t.Errorf("after a timeout %v programs of its group live", left["stdout"])
	}
	for _, stream := range []string{"stdout", "stderr"} {
		code := fmt.Sprintf("import sys; sys.%s.write('x' * 3000000)", stream)
		got := call(t, s, "sandbox::exec", exec(object{"argv": []string{"python3", "-c", code}}))
		if length := len(got[stream].(string)); length != 1<<20 || got["success"] != true {
			t.Errorf("%d bytes of %s, want 1 MiB", length, stream)
		}
	}
	// A program that was left behind with its streams elsewhere lives on.
	call(t, s, "sandbox::exec", exec(sh("nohup sleep 60 >/dev/null 2>&1 </dev/null & echo $! >/left")))
	if got := call(t, s, "sandbox::exec", exec(sh("kill -0 $(cat /left)"))); got["success"] != true {
		t.Errorf("a program in the background is gone: %v", got)
	}
}

func TestGuest_files(t *testing.T) {
	s := startReal(t)
	id, other := create(t, s, nil), create(t, s, nil)
	call(t, s, "sandbox::fs::write", object{
		"sandbox_id": id, "path": "/job/bin/run", "content": "#!/bin/sh\necho ran\n", "parents": true, "mode": "0755",
	})
	if got := call(t, s, "sandbox::exec", object{"sandbox_id": id, "cmd": "/job/bin/run"}); got["stdout"] != "ran\n" {
		t.Errorf("the written program answered %v", got)
	}
	entry := call(t, s, "sandbox::fs::stat", object{"sandbox_id": id, "path": "/job/bin/run"})
	delete(entry, "mtime")
	want := object{"name": "run", "is_dir": false, "is_symlink": false, "size": 19.0, "mode": "0755"}
	if diff := cmp.Diff(want, entry); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if got := call(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": "/job/bin/run"}); got["body"] != "#!/bin/sh\necho ran\n" {
		t.Errorf("file is %v", got)
	}
	writeUp(t, s, id, large)
	if got, err := download(t, s, id, "/up"); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes came back, want %d: %v", len(got), len(large), err)
	}
	refuse(t, s, "sandbox::fs::write", object{"sandbox_id": id, "path": "/no/a", "content": ""}, "S211")
	refuse(t, s, "sandbox::fs::write", object{"sandbox_id": id, "path": "/tmp", "content": ""}, "S212")
	refuse(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": "/none"}, "S211")
	refuse(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": "/job"}, "S212")
	refuse(t, s, "sandbox::fs::stat", object{"sandbox_id": other, "path": "/job"}, "S211")
	call(t, s, "sandbox::fs::stat", object{"sandbox_id": id, "path": "/"})
}

func TestGuest_network(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go greet(listener)
	port := listener.Addr().(*net.TCPAddr).Port
	s := startReal(t, port)
	env := object{"TARGET": fmt.Sprintf("ws://localhost:%d/", port)}
	program := "import os, socket, urllib.parse as u; t = u.urlparse(os.environ['TARGET']);" +
		"s = socket.create_connection((t.hostname, t.port), 5); print(s.recv(9).decode())"
	reach := object{"argv": []string{"python3", "-c", program}}
	open := create(t, s, object{"image": "python", "network": true, "env": env})
	if got := call(t, s, "sandbox::exec", mix(reach, object{"sandbox_id": open})); got["stdout"] != "hello\n" {
		t.Errorf("a guest with a network reached %v", got)
	}
	closed := create(t, s, object{"image": "python", "env": env})
	if got := call(t, s, "sandbox::exec", mix(reach, object{"sandbox_id": closed})); got["success"] == true {
		t.Errorf("a guest without a network reached %v", got)
	}
}

// greet answers every connection until the listener closes.
func greet(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "hello")
		_ = conn.Close()
	}
}

func TestGuest_manyAtOnce(t *testing.T) {
	s := startReal(t)
	mounts := mountCount(t)
	var guests sync.WaitGroup
	for i := range 20 {
		guests.Go(func() {
			name := fmt.Sprintf("guest-%d", i)
			answer, err := tryCall(s, "sandbox::create", object{"image": "node", "name": name, "memory_mb": 128})
			if err != nil {
				t.Errorf("creating %s: %v", name, err)
				return
			}
			got, err := tryCall(s, "sandbox::exec", mix(sh("echo "+name), object{"sandbox_id": answer["sandbox_id"]}))
			if err != nil || got["stdout"] != name+"\n" {
				t.Errorf("%s answered %v, %v", name, got, err)
			}
		})
	}
	guests.Wait()
	found := rows(t, s)
	if len(found) != 20 || len(children(t)) < 20 {
		t.Errorf("%d sandboxes in %d processes, want 20", len(found), len(children(t)))
	}
	for id, row := range found {
		if row["isolation"] != "namespaces" {
			t.Errorf("row is %v", row)
		}
		guests.Go(func() {
			if _, err := tryCall(s, "sandbox::stop", object{"sandbox_id": id}); err != nil {
				t.Errorf("stopping: %v", err)
			}
		})
	}
	guests.Wait()
	daemontest.Eventually(t, "no process of a guest is left", func(context.Context) bool { return len(children(t)) == 0 })
	if got := mountCount(t); got != mounts {
		t.Errorf("%d mounts on the host, %d before", got, mounts)
	}
}

func TestGuest_thatEnds(t *testing.T) {
	s := startReal(t)
	stopped, killed := create(t, s, nil), create(t, s, nil)
	// In this order: killing ends both.
	for _, tc := range []struct {
		name, id string
		end      func()
	}{
		{"by a stop", stopped, func() { call(t, s, "sandbox::stop", object{"sandbox_id": stopped}) }},
		{"by its own death", killed, func() { killChildren(t) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := make(chan error, 1)
			go func() {
				_, err := tryCall(s, "sandbox::exec", mix(sh("touch /on; sleep 600"), object{"sandbox_id": tc.id}))
				answer <- err
			}()
			daemontest.Eventually(t, "the program runs", func(context.Context) bool {
				_, err := tryCall(s, "sandbox::fs::stat", object{"sandbox_id": tc.id, "path": "/on"})
				return err == nil
			})
			tc.end()
			if err := <-answer; err == nil || !strings.Contains(err.Error(), `"code":"S300"`) {
				t.Errorf("the running program: %v", err)
			}
		})
	}
	if rows(t, s)[killed] == nil {
		t.Error("a guest that died is not listed until the reaper has seen it")
	}
	refuse(t, s, "sandbox::exec", mix(sh("true"), object{"sandbox_id": killed}), "S300")
	call(t, s, "sandbox::stop", object{"sandbox_id": killed})
}

// killChildren kills the agents of every guest of this test, and only them: a
// program that dies before its agent has an exit code.
func killChildren(t *testing.T) {
	t.Helper()
	for _, child := range children(t) {
		pid, err := strconv.Atoi(strings.Fields(child)[0])
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended with its parent
		}
		if strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[1] == fmt.Sprint(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func TestGuest_daemonEndsThemAll(t *testing.T) {
	s := startReal(t)
	id := create(t, s, nil)
	create(t, s, object{"image": "python", "network": true})
	call(t, s, "sandbox::exec", mix(sh("nohup sleep 600 >/dev/null 2>&1 </dev/null &"), object{"sandbox_id": id}))
	if len(children(t)) == 0 {
		t.Fatal("no process of a guest is seen, so their end cannot be seen either")
	}
	if err := s.StopDaemon(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
	if left := children(t); len(left) != 0 {
		t.Errorf("processes outlived the daemon: %v", left)
	}
}

// children are the descendants of this process, as "pid name".
func children(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents, names := map[string]string{}, map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // no process, or one that has just ended
		}
		open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		parents[entry.Name()] = strings.Fields(string(text[end+1:]))[1]
		names[entry.Name()] = string(text[open+1 : end])
	}
	self := fmt.Sprint(os.Getpid())
	var found []string
	for pid := range parents {
		for up := parents[pid]; up != "" && up != "0"; up = parents[up] {
			if up == self {
				found = append(found, pid+" "+names[pid])
				break
			}
		}
	}
	return found
}

func mountCount(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// mix returns both objects in one.
func mix(a, b object) object {
	mixed := object{}
	for _, part := range []object{a, b} {
		for name, value := range part {
			mixed[name] = value
		}
	}
	return mixed
}
