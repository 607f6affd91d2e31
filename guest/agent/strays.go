package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// endChildrenBut kills and reaps the children of this process that are not its
// own, but came to it because a process below it ended before them, and whatever
// stems from them.
func endChildrenBut(own map[int]bool) { endStrays(childrenOf(os.Getpid()), own) }

func endStrays(children []int, own map[int]bool) {
	for _, pid := range children {
		if own[pid] {
			continue
		}
		for _, below := range descendants(pid) {
			_ = syscall.Kill(below, syscall.SIGKILL)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
}

// quickChildren lists this process's children without looking at all processes there
// are. It may miss one while another ends, and so is for those who look again.
func quickChildren() []int {
	children, known := childrenOfThreads(os.Getpid())
	if !known {
		return childrenOf(os.Getpid())
	}
	return children
}

// childrenOfThreads lists a process's children. They are not known where the kernel
// lists them only under their own names.
func childrenOfThreads(pid int) (children []int, known bool) {
	threads := filepath.Join("/proc", strconv.Itoa(pid), "task")
	entries, err := os.ReadDir(threads)
	if err != nil {
		return nil, false
	}
	for _, entry := range entries {
		listed, err := os.ReadFile(filepath.Join(threads, entry.Name(), "children"))
		if err != nil {
			return nil, false // it has just ended, or is not kept
		}
		for _, field := range strings.Fields(string(listed)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children, true
}
