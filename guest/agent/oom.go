package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// vmstat has the kernel's counters. In a microVM they are the guest's own.
const vmstat = "/proc/vmstat"

// outOfMemoryKills counts the programs that the kernel killed for want of
// memory, 0 where it does not say. Without it, such an end looks like that of a
// program that kills itself.
func outOfMemoryKills(path string) uint64 {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if count, found := strings.CutPrefix(lines.Text(), "oom_kill "); found {
			kills, _ := strconv.ParseUint(count, 10, 64)
			return kills
		}
	}
	return 0
}
