package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// process is one process of the host; its start, in clock ticks since boot, tells
// it from a later one of the same number.
type process struct {
	pid   int
	start string
}

// readProcess returns a process and its parent.
func readProcess(pid int) (p process, parent int, name string, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, 0, "", false
	}
	// The name stands in parentheses and may hold anything.
	head, rest, found := strings.Cut(string(text), "(")
	end := strings.LastIndex(rest, ")")
	if !found || head == "" || end < 0 {
		return process{}, 0, "", false
	}
	fields := strings.Fields(rest[end+1:])
	const parentField, startField = 1, 19
	if len(fields) <= startField {
		return process{}, 0, "", false
	}
	parent, err = strconv.Atoi(fields[parentField])
	return process{pid, fields[startField]}, parent, rest[:end], err == nil
}

// descendantsOf finds the children of a process, theirs, and so on.
func descendantsOf(ancestor int) map[process]string {
	type entry struct {
		process process
		name    string
	}
	children := map[int][]entry{}
	paths, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range paths {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if p, parent, name, ok := readProcess(pid); ok {
			children[parent] = append(children[parent], entry{p, name})
		}
	}
	found := map[process]string{}
	for queue := []int{ancestor}; len(queue) > 0; queue = queue[1:] {
		for _, child := range children[queue[0]] {
			found[child.process] = child.name
			queue = append(queue, child.process.pid)
		}
	}
	return found
}

// alive names the processes that still run.
func alive(processes map[process]string) []string {
	var names []string
	for p, name := range processes {
		if now, _, _, ok := readProcess(p.pid); ok && now == p {
			names = append(names, fmt.Sprintf("%s (%d)", name, p.pid))
		}
	}
	return names
}

// hostState is what the host had before the suite.
type hostState struct {
	mounts []string
}

func readHost() hostState {
	GinkgoHelper()
	return hostState{mounts: readMounts()}
}

// readMounts lists the mount points that programs of this host see.
func readMounts() []string {
	GinkgoHelper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	Expect(err).NotTo(HaveOccurred())
	var points []string
	for line := range strings.Lines(string(text)) {
		const pointField = 4
		points = append(points, strings.Fields(line)[pointField])
	}
	return sorted(points)
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
			groups = append(groups, path)
		}
		return nil
	})
	return groups
}

// expectUnchanged is for the time after the stack has stopped.
func (h hostState) expectUnchanged(o *observer) {
	GinkgoHelper()
	if o == nil {
		return // the stack did not start
	}
	Expect(o.processes).NotTo(BeEmpty(), "the observer saw no process")
	Eventually(alive).WithArguments(o.processes).Should(BeEmpty(), "processes of the suite")
	Expect(o.daemons).NotTo(BeEmpty(), "the observer saw no daemon")
	Eventually(controlGroups).WithArguments(o.daemons).Should(BeEmpty(), "control groups of sandboxes")
	added := slices.DeleteFunc(readMounts(), func(point string) bool { return slices.Contains(h.mounts, point) })
	Expect(added).To(BeEmpty(), "mounts")
}
