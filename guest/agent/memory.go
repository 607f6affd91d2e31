package main

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// warmShare of the guest's memory, one part of so many, may be taken by
	// processes that wait.
	warmShare = 4
	// unsureBudget is all they may take where no limit of the guest itself is to be
	// seen, but only the machine's memory, which may be shared with others.
	unsureBudget = 128 << 20
)

// warmBudget is the memory that processes may take which wait for calls, bytes.
func warmBudget() int64 {
	total := machineMemory("/proc/meminfo")
	if limit := min(controlGroupLimit("/sys/fs/cgroup", "/proc/self/cgroup"), dataLimit()); limit < total {
		return limit / warmShare
	}
	return min(total/warmShare, unsureBudget)
}

func machineMemory(path string) int64 {
	content, err := os.ReadFile(path)
	if err != nil {
		return unsureBudget
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "MemTotal:"); found {
			kilobytes, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			return kilobytes << 10
		}
	}
	return unsureBudget
}

// controlGroupLimit is the lowest limit from this process's control group up to
// the root that can be seen, of either version; the largest number if there is none.
func controlGroupLimit(mount, membership string) int64 {
	limit := int64(math.MaxInt64)
	content, _ := os.ReadFile(membership)
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			continue
		}
		root, name := mount, "memory.max"
		if fields[1] != "" {
			root, name = filepath.Join(mount, "memory"), "memory.limit_in_bytes"
			if fields[1] != "memory" {
				continue
			}
		}
		for path := filepath.Join("/", fields[2]); ; path = filepath.Dir(path) {
			limit = min(limit, readLimit(filepath.Join(root, path, name)))
			if path == "/" {
				break
			}
		}
	}
	return limit
}

func readLimit(path string) int64 {
	content, err := os.ReadFile(path)
	if err != nil {
		return math.MaxInt64
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil || value <= 0 {
		return math.MaxInt64 // "max"
	}
	return value
}

// dataLimit is the limit of one process, which some guests have instead.
func dataLimit() int64 {
	const resourceData = 2
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(resourceData, &limit); err != nil || limit.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(limit.Cur) //nolint:gosec // Bounded above.
}

// ownBytes is the memory that a process has for itself: what is resident and not
// of a file that others map as well. 0 if it has ended.
func ownBytes(pid int) int64 {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(content))
	if len(fields) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(fields[1], 10, 64)
	shared, _ := strconv.ParseInt(fields[2], 10, 64)
	return (resident - shared) * int64(os.Getpagesize())
}
