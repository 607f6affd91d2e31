package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func (g *guest) setup(command string, change ...func(*wire.SetupRequest)) wire.Reply {
	g.t.Helper()
	request := wire.SetupRequest{Command: command, TimeoutMs: testTimeout.Milliseconds()}
	for _, apply := range change {
		apply(&request)
	}
	return g.exec(wire.CommandSetup, request)
}

func TestSetup(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made", "here")
	tests := map[string]struct {
		command string
		change  func(*wire.SetupRequest)
		want    wire.Run
	}{
		"a command line of the shell": {"echo out && echo err >&2; pwd", nil, wire.Run{Stdout: "out\n/\n", Stderr: "err\n"}},
		"a failing command":           {"echo a; exit 7; echo b", nil, wire.Run{Stdout: "a\n", ExitCode: 7}},
		"a command that is not there": {"nothing-of-that-name 2>/dev/null", nil, wire.Run{ExitCode: 127}},
		"environment and folder": {`echo "$COLOUR"; pwd`, func(r *wire.SetupRequest) {
			r.Env, r.Folder = map[string]string{"COLOUR": "red"}, folder
		}, wire.Run{Stdout: "red\n" + folder + "\n"}},
		"no more than its streams":  {"ls /proc/self/fd | wc -l", nil, wire.Run{Stdout: "4\n"}}, // ls has the folder open too
		"killed by a signal":        {"kill -9 $$", nil, wire.Run{ExitCode: 137, Signal: "SIGKILL"}},
		"partial output at the end": {"echo first; sleep 600", func(r *wire.SetupRequest) { r.TimeoutMs = 1000 }, wire.Run{Stdout: "first\n", ExitCode: -1, TimedOut: true}},
	}
	guest := newGuest(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			guest := *guest
			guest.t = t
			var changes []func(*wire.SetupRequest)
			if tc.change != nil {
				changes = append(changes, tc.change)
			}
			reply := guest.setup(tc.command, changes...)
			if diff := cmp.Diff(&tc.want, reply.Run); diff != "" || reply.Error != nil {
				t.Errorf("%v (-want +got):\n%s", reply.Error, diff)
			}
		})
	}
}

func TestSetup_outputIsBounded(t *testing.T) {
	guest := newGuest(t)
	reply := guest.setup("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
	if !reply.Run.StdoutTruncated || len(reply.Run.Stdout) > upkeepOutput+100 ||
		!strings.HasPrefix(reply.Run.Stdout, "line 0\n") || !strings.HasSuffix(reply.Run.Stdout, "line 19999\n") {
		t.Errorf("%d bytes, truncated %t", len(reply.Run.Stdout), reply.Run.StdoutTruncated)
	}
}

// What a setup starts in the background is there for the programs.
func TestSetup_keepsBackgroundProcesses(t *testing.T) {
	guest := newGuest(t)
	reply := guest.setup("sleep 600 >/dev/null 2>&1 & echo $!")
	pid, err := strconv.Atoi(strings.TrimSpace(reply.Run.Stdout))
	if err != nil {
		t.Fatalf("%v: %+v", err, reply.Run)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the background process is gone: %v", err)
	}
}

func TestSetup_refusal(t *testing.T) {
	guest := newGuest(t)
	for name, request := range map[string]wire.SetupRequest{
		"no command":          {TimeoutMs: 1},
		"no deadline":         {Command: "true"},
		"a relative folder":   {Command: "true", TimeoutMs: 1, Folder: "here"},
		"a folder of no use":  {Command: "true", TimeoutMs: 1, Folder: "/dev/null/x"},
		"a token that is not": {Command: "true", TimeoutMs: 1, Token: "x"},
	} {
		if reply := guest.exec(wire.CommandSetup, request); reply.Error == nil || reply.Error.Kind != wire.BadRequest {
			t.Errorf("%s: got %+v", name, reply)
		}
	}
}

func TestSetup_cancel(t *testing.T) {
	guest := newGuest(t)
	mark, token := freshName(), newToken()
	replies := guest.inBackground(wire.CommandSetup, wire.SetupRequest{
		Command: "sleep 600 & sleep 600", TimeoutMs: 60_000, Token: token, Env: map[string]string{"MARK": mark}})
	eventually(t, "the command runs", func() bool { return len(processesWith("MARK="+mark)) > 2 })
	guest.cancel(token)
	if left := processesWith("MARK=" + mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if reply := <-replies; reply.Run == nil || !reply.Run.Canceled {
		t.Errorf("got %+v %v", reply.Run, reply.Error)
	}
}
