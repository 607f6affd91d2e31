package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// mountCount is the number of mounts of this process's namespace.
func mountCount() (int, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return bytes.Count(mounts, []byte("\n")), err
}

// groupsOf are the control groups that a daemon made.
func groupsOf(pid int) []string {
	prefix := fmt.Sprintf("sandbox-%d-", pid)
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		// Groups of other programs come and go while this looks.
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// descendants are all processes below one, as far as this user sees them.
func descendants(root int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		parent, _ := strconv.Atoi(fields[1])
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		children[parent] = append(children[parent], pid)
	}
	found := append([]int{}, children[root]...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// killed kills a daemon that has guests and waits for their end.
func killed(p *process) error {
	below := descendants(p.pid())
	if len(below) == 0 {
		_ = p.stop()
		return errors.New("the daemon has no guest whose end could be seen")
	}
	err := p.kill()
	_ = p.stop()
	return errors.Join(err, allGone(below))
}

// ended ends a daemon and compares the host with what it was before.
func ended(p *process, mounts int) error {
	below := descendants(p.pid())
	if len(below) == 0 {
		_ = p.stop()
		return errors.New("the daemon has no guest whose end could be seen")
	}
	if err := p.stop(); err != nil {
		return fmt.Errorf("the daemon ended with: %w: %s", err, p.complaints.String())
	}
	if err := allGone(below); err != nil {
		return err
	}
	if left := groupsOf(p.pid()); len(left) > 0 {
		return fmt.Errorf("control groups are left: %v", left)
	}
	after, err := mountCount()
	if err == nil && after > mounts {
		err = fmt.Errorf("%d mounts where %d were before", after, mounts)
	}
	return err
}

// sweep has a new back end remove what a killed daemon could not: the control
// groups of guests that are gone.
func sweep(backend string, where place, killed *process) error {
	swept, err := backends[backend].make(slog.New(slog.DiscardHandler), where.config(options{backend: backend}, daemon.DefaultConfig()))
	if err != nil {
		return err
	}
	if left := groupsOf(killed.pid()); len(left) > 0 {
		err = fmt.Errorf("control groups are left: %v", left)
	}
	return errors.Join(err, swept.Close())
}

// allGone waits until none of the processes is left.
func allGone(pids []int) error {
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		left := 0
		for _, pid := range pids {
			if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("%d of %d processes are left", left, len(pids))
		}
	}
}
