package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// host is what the machine had before the storm.
type host struct{ mounts []string }

// readHost also makes this process the parent of orphans, so that what killed parts
// leave behind is found among its children.
func readHost() host {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // a kernel without it shows fewer leftovers
	return host{mounts: readMounts()}
}

func readMounts() []string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	var points []string
	for line := range strings.Lines(string(text)) {
		const pointField = 4
		points = append(points, strings.Fields(line)[pointField])
	}
	return points
}

// endPatience is how long processes get that were told to end.
const endPatience = 10 * time.Second

// leftovers says what a world has left after its end, and removes it.
func (h host) leftovers(w *world) []string {
	problems := orphans()
	for _, point := range readMounts() {
		if !slices.Contains(h.mounts, point) {
			problems = append(problems, "mount "+point)
		}
	}
	problems = append(problems, controlGroups(w.keeper.daemons)...)
	entries, err := os.ReadDir(w.temporary())
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, entry := range entries {
		problems = append(problems, "temporary file "+entry.Name())
	}
	if err := os.RemoveAll(w.dir); err != nil {
		problems = append(problems, err.Error())
	}
	return append(problems, panics(w.stack)...)
}

// orphans finds the children that nobody waits for any more, once those that end
// have ended.
func orphans() []string {
	deadline := time.Now().Add(endPatience)
	for {
		reap()
		left := children()
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return killed(left)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// reap takes the exit codes of orphans; this program waits for no child by now.
func reap() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}

func children() []int {
	paths, _ := filepath.Glob("/proc/self/task/*/children")
	var pids []int
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func killed(pids []int) []string {
	var problems []string
	for _, pid := range pids {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		problems = append(problems, fmt.Sprintf("process %s (%d)", strings.TrimSpace(string(name)), pid))
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	reap()
	return problems
}

// controlGroups lists the groups that daemons of these process ids made.
func controlGroups(daemons map[int]bool) []string {
	var groups []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil //nolint:nilerr // it went while it was being looked at
		}
		name, isOurs := strings.CutPrefix(entry.Name(), "sandbox-")
		owner, _, _ := strings.Cut(name, "-")
		if pid, err := strconv.Atoi(owner); isOurs && err == nil && daemons[pid] {
			groups = append(groups, "control group "+path)
		}
		return nil
	})
	return groups
}

var panicked = regexp.MustCompile(`(?m)^(panic:|fatal error:).*|Observed a panic.*|DATA RACE`)

// panics reads the logs of our own programs.
func panics(s *stack.Stack) []string {
	var problems []string
	for _, part := range []stack.Part{stack.Operator, stack.Standby, stack.Daemon, stack.Engine} {
		text, err := os.ReadFile(s.LogPath(part))
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, line := range panicked.FindAllString(string(text), shownProblems) {
			problems = append(problems, fmt.Sprintf("the log of %s says %s", part, line))
		}
	}
	return problems
}
