package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// newWarmGuest has a supervisor, which is gone when the test is.
func newWarmGuest(t *testing.T) *guest {
	t.Helper()
	guest := newGuest(t)
	t.Cleanup(func() { guest.endSupervisor() })
	if reply := guest.exec(wire.CommandInit, wire.InitRequest{Warm: true}); reply.Error != nil {
		t.Fatal(reply.Error)
	}
	guest.awaitSupervisor()
	return guest
}

func (g *guest) awaitSupervisor() {
	g.t.Helper()
	eventually(g.t, "the supervisor listens", func() bool {
		_, err := os.Stat(filepath.Join(g.home, "supervisor", "socket"))
		return err == nil
	})
}

// endSupervisor removes the folder and waits until nothing that came out of it is left.
func (g *guest) endSupervisor() {
	_ = os.RemoveAll(filepath.Join(g.home, "supervisor"))
	eventually(g.t, "the guest's processes are gone", func() bool { return len(g.processes()) == 0 })
}

// processes lists those whose executable or arguments lie in the private folder.
func (g *guest) processes() (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		content, _ := os.ReadFile(file)
		if strings.Contains(string(content), g.home) {
			found = append(found, filepath.Base(filepath.Dir(file))+" "+strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}

// supervisor is the process id of the one that holds the lock.
func (g *guest) supervisor() int {
	for _, each := range g.processes() {
		fields := strings.Fields(each)
		if len(fields) == 3 && fields[2] == wire.CommandServe {
			pid := 0
			for _, digit := range fields[0] {
				pid = pid*10 + int(digit-'0')
			}
			return pid
		}
	}
	return 0
}

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// way is how calls are made.
type way struct {
	name      string
	warm      bool
	isolation wire.Isolation
	starts    []string
}

var ways = []way{
	{name: "cold", starts: []string{wire.StartCold}},
	{name: "warm", warm: true, starts: []string{wire.StartReady, wire.StartForked}},
	{name: "shared", warm: true, isolation: wire.Shared, starts: []string{wire.StartShared}},
}

// inAllWays runs a test for every way of calling: what a handler can count on is
// the same.
func inAllWays(t *testing.T, test func(t *testing.T, guest *guest)) {
	t.Helper()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) { test(t, newGuestOf(t, way)) })
	}
}

func newGuestOf(t *testing.T, way way) *guest {
	t.Helper()
	guest := newGuest(t)
	if way.warm {
		guest = newWarmGuest(t)
	}
	guest.way = way
	return guest
}

func (w way) of(request wire.CallRequest) wire.CallRequest {
	request.Warm, request.Isolation = w.warm, w.isolation
	return request
}

// invoke makes a call until it has come about as it should: the first may find
// nothing ready.
func (g *guest) invoke(request wire.CallRequest) wire.Reply {
	g.t.Helper()
	var reply wire.Reply
	eventually(g.t, "a call starts as it should", func() bool {
		reply = g.exec(wire.CommandCall, g.way.of(request))
		return slices.Contains(g.way.starts, reply.Start)
	})
	return reply
}
