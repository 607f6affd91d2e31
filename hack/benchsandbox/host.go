package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const mebibyte = 1 << 20

// idle measures the memory of sandboxes that wait, agent and process 1 together,
// as their proportional share of what is mapped.
func (b *bench) idle() error {
	machines, err := b.many(b.idleCount)
	if err == nil {
		var total float64
		total, err = memoryOf(descendants())
		b.metrics[b.prefix+"idle_mb"] = total / float64(b.idleCount)
	}
	return errors.Join(err, b.stopAll(machines))
}

// hold measures many sandboxes at once, each of which must still work.
func (b *bench) hold() error {
	began := time.Now()
	machines, err := b.many(b.options.held)
	b.metrics[b.prefix+"held"] = float64(b.options.held)
	b.metrics[b.prefix+"held_create_s"] = time.Since(began).Seconds()
	for _, m := range machines {
		if err == nil {
			err = b.use(m)
		}
	}
	if err == nil {
		b.metrics[b.prefix+"held_mb"], err = memoryOf(descendants())
	}
	return errors.Join(err, b.stopAll(machines))
}

// cycle makes and stops sandboxes, a few at a time, and compares what this
// process and the host have afterwards with what they had before.
func (b *bench) cycle() error {
	before, err := b.settled(inventory{})
	if err != nil {
		return err
	}
	began := time.Now()
	for made := 0; made < b.options.cycles; {
		round := min(10, b.options.cycles-made)
		machines, err := b.many(round)
		if err = errors.Join(err, b.stopAll(machines)); err != nil {
			return err
		}
		made += round
	}
	b.metrics[b.prefix+"cycles"] = float64(b.options.cycles)
	b.metrics[b.prefix+"cycle_ms"] = millis(time.Since(began)) / float64(max(b.options.cycles, 1))
	after, err := b.settled(before)
	if err != nil {
		return err
	}
	left := map[string]int{
		"processes": after.processes - before.processes, "mounts": after.mounts - before.mounts,
		"cgroups": after.groups - before.groups, "fds": after.descriptors - before.descriptors,
	}
	total := 0
	for name, count := range left {
		b.metrics[b.prefix+"leaked_"+name] = float64(max(count, 0))
		total += max(count, 0)
	}
	b.metrics[b.prefix+"leaked"] = float64(total)
	return nil
}

// inventory is what there is more of when something leaks.
type inventory struct{ processes, mounts, groups, descriptors int }

// settled takes the inventory once it is no more than the wanted one, or once it
// has stopped changing: the kernel lets go of the last things a moment later.
func (b *bench) settled(wanted inventory) (inventory, error) {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last, err := takeInventory()
	for same := 0; err == nil && last != wanted && same < 5; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, b.ctx.Err()
		}
		var next inventory
		next, err = takeInventory()
		if same++; next != last {
			same = 0
		}
		last = next
	}
	return last, err
}

func takeInventory() (inventory, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return inventory{}, err
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return inventory{}, err
	}
	found := inventory{processes: len(descendants()), mounts: bytes.Count(mounts, []byte("\n")), descriptors: len(descriptors)}
	prefix := fmt.Sprintf("sandbox-%d-", os.Getpid())
	err = filepath.WalkDir("/sys/fs/cgroup", func(_ string, entry fs.DirEntry, err error) error {
		// Groups of other programs come and go while this looks.
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) {
			found.groups++
		}
		return nil
	})
	return found, err
}

// descendants are all processes below this one.
func descendants() []int {
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
	found := append([]int{}, children[os.Getpid()]...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// memoryOf sums the proportional set sizes, in MiB.
func memoryOf(pids []int) (float64, error) {
	total := 0.0
	for _, pid := range pids {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended since it was listed
		}
		if err != nil {
			return 0, fmt.Errorf("reading the memory of a guest's process: %w", err)
		}
		for line := range strings.Lines(string(content)) {
			if text, is := strings.CutPrefix(line, "Pss:"); is {
				kilobytes, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
				if err != nil {
					return 0, err
				}
				total += kilobytes * 1024 / mebibyte
			}
		}
	}
	return total, nil
}
