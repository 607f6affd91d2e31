package main

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// endDescendantsWait bounds the hunt for processes that fork faster than they
// can be killed, or that the kernel is slow to end.
const endDescendantsWait = time.Second

// rescanInterval is the net for a process that no list shows: one that got
// another parent while /proc was read.
const rescanInterval = 10 * time.Millisecond

// endDescendants kills and reaps every process that stems from this one. The
// agent is their subreaper, so even those that left their session come back to
// it. Call it only when no other code waits for children.
func endDescendants() {
	if reapChildren() {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	limit := time.After(endDescendantsWait)
	for !reapChildren() {
		for _, pid := range descendants(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-ended:
		case <-rescan.C:
		case <-limit:
			return
		}
	}
}

// reapChildren reports whether no child is left.
func reapChildren() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ECHILD):
			return true
		case err != nil || pid == 0:
			return false
		}
	}
}

// descendants lists the processes below root, from /proc.
func descendants(root int) []int {
	children := childrenByParent()
	found := children[root]
	for next := 0; next < len(found); next++ {
		found = append(found, children[found[next]]...)
	}
	return found
}

func childrenOf(pid int) []int { return childrenByParent()[pid] }

func childrenByParent() map[int][]int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			parent := parentOf(pid)
			children[parent] = append(children[parent], pid)
		}
	}
	return children
}

func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The command name may hold anything; the fields follow its last bracket.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL",
	syscall.SIGTRAP: "SIGTRAP", syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE",
	syscall.SIGKILL: "SIGKILL", syscall.SIGUSR1: "SIGUSR1", syscall.SIGSEGV: "SIGSEGV", syscall.SIGUSR2: "SIGUSR2",
	syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM", syscall.SIGXCPU: "SIGXCPU",
	syscall.SIGXFSZ: "SIGXFSZ", syscall.SIGSYS: "SIGSYS",
}

func signalName(number syscall.Signal) string {
	if name, known := signalNames[number]; known {
		return name
	}
	return "signal " + strconv.Itoa(int(number))
}
