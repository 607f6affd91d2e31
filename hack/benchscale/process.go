package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of times in /proc, the same on all Linux systems of
// today.
const ticksPerSecond = 100

// residentBytes is what the kernel counts as a process's resident memory.
func residentBytes(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseFloat(words[1], 64)
			return kilobytes * 1024, err
		}
	}
	return 0, fmt.Errorf("the kernel does not say how much memory process %d has", pid)
}

// processorTime is what a process has used of the processors, user and system.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in brackets and may hold spaces.
	_, rest, found := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	const user, system = 11, 12
	if !found || len(fields) <= system {
		return 0, fmt.Errorf("the kernel does not say how long process %d has run", pid)
	}
	total := 0.0
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, err
		}
		total += ticks
	}
	return time.Duration(total / ticksPerSecond * float64(time.Second)), nil
}
