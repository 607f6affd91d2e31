package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// markPath is a file in each sandbox that says whose it is: seen from outside, its
// processes have nothing else that does.
const markPath = "/bench-mark"

func markOf(languageName string, w results.Way) string { return languageName + "." + string(w) }

// measureInstances reads the memory of one instance of each way, at rest and under the
// load of a saturated cell: the proportional share of what is mapped.
func (b *bench) measureInstances(ctx context.Context) error {
	for _, l := range languages {
		cell := results.Saturated(l.name)
		ways, err := b.waysOf(cell)
		if err != nil {
			return err
		}
		for _, w := range ways {
			if w.name == results.Bare {
				continue
			}
			if err := b.measureInstance(ctx, cell, w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) measureInstance(ctx context.Context, cell results.Cell, w way) error {
	name := "instance." + markOf(cell.Language, w.name)
	var loaded []float64
	busy, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	var failed error
	group.Go(func() {
		defer stop()
		_, failed = b.slot(ctx, w, works[0], cell.Callers, timing{window: b.plan.window * 2})
	})
	for pause(busy, b.plan.window/4) == nil {
		mebibytes, err := b.instanceMemory(markOf(cell.Language, w.name))
		if err == nil {
			loaded = append(loaded, mebibytes)
		}
	}
	group.Wait()
	if failed != nil {
		return failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	rest, err := b.instanceMemory(markOf(cell.Language, w.name))
	if err != nil {
		b.note("The memory of instances was not measured: " + err.Error() + ".")
		return nil
	}
	b.metrics[name+".rest_mb"] = rest
	if len(loaded) > 0 {
		slices.Sort(loaded)
		b.metrics[name+".loaded_mb"] = loaded[len(loaded)/2]
	}
	return nil
}

// instanceMemory is the memory of the processes in the sandboxes of a mark, by
// sandbox, in MiB.
func (b *bench) instanceMemory(mark string) (float64, error) {
	total, sandboxes := 0.0, map[string]bool{}
	for _, pid := range descendants(listProcesses(), b.stack.PID(stack.Daemon)) {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", pid, markPath))
		if err != nil || string(content) != mark {
			continue
		}
		space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
		if err != nil {
			continue // It has ended.
		}
		memory, err := proportionalMemory(pid)
		if err != nil {
			return 0, err
		}
		sandboxes[space] = true
		total += memory
	}
	if len(sandboxes) == 0 {
		return 0, errors.New("no process of a sandbox can be looked at")
	}
	return total / float64(len(sandboxes)), nil
}

// proportionalMemory is in MiB; that of a process which has ended is none.
func proportionalMemory(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if text, is := strings.CutPrefix(line, "Pss:"); is {
			kilobytes, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
			return kilobytes / 1024, err
		}
	}
	return 0, nil
}

// settlePatience bounds the wait for guests to come to rest.
const settlePatience = 30 * time.Second

// rest waits until guests and operator hardly use the processor: after a change of
// instances, their sources are planted and their processes are ready then.
func (b *bench) rest(ctx context.Context) error {
	const step, quiet = 500 * time.Millisecond, 25 * time.Millisecond
	for deadline := time.Now().Add(settlePatience); time.Now().Before(deadline); {
		before, err := b.readUsage()
		if err != nil {
			return err
		}
		if err := pause(ctx, step); err != nil {
			return err
		}
		after, err := b.readUsage()
		if err != nil {
			return err
		}
		if used := after.less(before); used.operator+used.guests <= quiet {
			return nil
		}
	}
	return nil
}
