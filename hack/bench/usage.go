package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// tick is the unit of times in /proc, the same on all Linux systems of today.
const tick = 10 * time.Millisecond

// usage is processor time so far: that of the operator, that of the daemon with all
// guests, and that of processes which this one has started and waited for.
type usage struct{ operator, guests, children time.Duration }

func (u usage) less(before usage) usage {
	return usage{u.operator - before.operator, u.guests - before.guests, u.children - before.children}
}

func (b *bench) readUsage() (u usage, err error) {
	if u.operator, err = threadsTime(b.stack.PID(stack.Operator)); err != nil {
		return u, err
	}
	if u.guests, err = treeTime(b.stack.PID(stack.Daemon)); err != nil {
		return u, err
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &own); err != nil {
		return u, err
	}
	u.children = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return u, nil
}

// settledUsage reads once the guests have made ready what the last calls took, so
// that it counts for the way that took it.
func (b *bench) settledUsage(ctx context.Context) (usage, error) {
	const step, most = 30 * time.Millisecond, 15
	last, err := b.readUsage()
	for range most {
		if err != nil {
			return last, err
		}
		if err := pause(ctx, step); err != nil {
			return last, err
		}
		var next usage
		next, err = b.readUsage()
		if next.guests-last.guests <= 0 {
			return next, err
		}
		last = next
	}
	return last, err
}

// pause waits, but not beyond the context.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// threadsTime is the time of a process's threads, in nanoseconds where the unit of
// the process as a whole is 10 ms. The threads of a Go program do not end.
func threadsTime(pid int) (time.Duration, error) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("process %d is gone", pid)
	}
	total := time.Duration(0)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // The thread has ended.
		}
		used, _, _ := strings.Cut(string(content), " ")
		nanoseconds, err := strconv.ParseInt(used, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(nanoseconds)
	}
	return total, err
}

// treeTime is the time of a process and all below it, with those that have ended and
// were waited for.
func treeTime(root int) (time.Duration, error) {
	processes := listProcesses()
	if _, there := processes[root]; !there {
		return 0, fmt.Errorf("process %d is gone", root)
	}
	ticks := int64(0)
	for _, pid := range descendants(processes, root) {
		ticks += processes[pid].ticks
	}
	return time.Duration(ticks) * tick, nil
}

// process is what /proc says of one.
type process struct {
	parent int
	// ticks are its own and those of children that it waited for.
	ticks int64
}

func listProcesses() map[int]process {
	processes := map[int]process{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // Only a bad pattern is an error.
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended.
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if found, ok := parseStat(content); ok && err == nil {
			processes[pid] = found
		}
	}
	return processes
}

// parseStat reads /proc/PID/stat, whose second field is a name in brackets that may
// hold anything.
func parseStat(content []byte) (process, bool) {
	const parent, user, lastTime = 1, 11, 14
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) <= lastTime {
		return process{}, false
	}
	var p process
	p.parent, _ = strconv.Atoi(fields[parent])
	for _, field := range fields[user : lastTime+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return process{}, false
		}
		p.ticks += ticks
	}
	return p, true
}

// descendants are a process and all below it.
func descendants(processes map[int]process, root int) []int {
	children := map[int][]int{}
	for pid, p := range processes {
		children[p.parent] = append(children[p.parent], pid)
	}
	found := []int{root}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}
