package main

import (
	"os"
	"syscall"
)

// endChildrenBut kills and reaps the children of this process that are not its
// own, but came to it because a process below it ended before them, and whatever
// stems from them.
func endChildrenBut(own map[int]bool) {
	for _, pid := range childrenOf(os.Getpid()) {
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
