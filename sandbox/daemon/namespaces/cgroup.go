package namespaces

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupLimits are the bounds of one guest.
type cgroupLimits struct {
	memoryBytes int64
	processes   int
	cpus        int
}

// cgroupKind makes groups of one version of the interface.
type cgroupKind interface {
	// controllers names what it bounds: memory, pids, cpu.
	controllers() []string
	// create makes a group, of which it fills in the fields even on an error.
	create(group *cgroup, name string, limits cgroupLimits) error
	describe() string
}

// cgroup is the control group of one guest.
type cgroup struct {
	// directories are removed in reverse order.
	directories []string
	// agentFiles take the agent's process number: what it holds is charged to
	// the guest.
	agentFiles []string
	// threadFiles take the thread that starts programs, so that the bounds on
	// processes and processor time are the programs' alone: an agent that
	// cannot make a thread would die of the guest's fork bomb.
	threadFiles []string
}

// detectCgroups returns the kinds that work here, newest first, each left with
// the controllers that no earlier one has. It proves each by making a group.
func detectCgroups() []cgroupKind {
	var kinds []cgroupKind
	found := map[string]bool{}
	for _, detect := range []func(taken map[string]bool) cgroupKind{detectCgroupV2, detectCgroupV1} {
		kind := detect(found)
		if kind == nil || probeCgroup(kind) != nil {
			continue
		}
		kinds = append(kinds, kind)
		for _, name := range kind.controllers() {
			found[name] = true
		}
	}
	return kinds
}

func probeCgroup(kind cgroupKind) error {
	group, err := newCgroup([]cgroupKind{kind}, cgroupLimits{memoryBytes: 64 << 20, processes: 64, cpus: 1})
	if err != nil {
		return err
	}
	return group.discard()
}

// newCgroup makes a group in each kind, or none.
func newCgroup(kinds []cgroupKind, limits cgroupLimits) (*cgroup, error) {
	name := fmt.Sprintf("%s%d-%s", groupPrefix, os.Getpid(), strings.ToLower(rand.Text()[:12]))
	group := &cgroup{}
	for _, kind := range kinds {
		if err := kind.create(group, name, limits); err != nil {
			return nil, errors.Join(fmt.Errorf("making a control group: %w", err), group.discard())
		}
	}
	return group, nil
}

// groupPrefix begins the names of groups; the daemon's process number follows.
const groupPrefix = "sandbox-"

// sweepGroups removes the groups of daemons that were killed: their guests died
// with them, but nobody was left to remove the empty groups.
func sweepGroups(parent string) {
	groups, _ := filepath.Glob(filepath.Join(parent, groupPrefix+"*-*"))
	for _, group := range groups {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(group), groupPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		_ = unix.Rmdir(filepath.Join(group, innerGroup))
		_ = unix.Rmdir(group)
	}
}

// mkdir makes a directory that remove takes away again.
func (g *cgroup) mkdir(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	g.directories = append(g.directories, path)
	return nil
}

// add puts the agent into the group.
func (g *cgroup) add(pid int) error {
	for _, file := range g.agentFiles {
		if err := writeControl(file, fmt.Sprint(pid)); err != nil {
			return err
		}
	}
	return nil
}

// openThreadFiles opens the files that the agent's spawning thread joins by
// writing 0: the kernel checks the right to do so against who opened them.
func (g *cgroup) openThreadFiles() ([]int, error) {
	var fds []int
	for _, file := range g.threadFiles {
		fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			closeAll(fds)
			return nil, fmt.Errorf("opening %s: %w", file, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// remove deletes the group. Its processes are dead by then, but the kernel
// takes a moment to let go of them.
func (g *cgroup) remove(ctx context.Context) error {
	var failed error
	for i := len(g.directories) - 1; i >= 0; i-- {
		failed = errors.Join(failed, removeGroup(ctx, g.directories[i]))
	}
	return failed
}

// discard removes a group in which nothing ever ran.
func (g *cgroup) discard() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return g.remove(ctx)
}

func removeGroup(ctx context.Context, directory string) error {
	retry := time.NewTicker(2 * time.Millisecond)
	defer retry.Stop()
	for {
		err := unix.Rmdir(directory)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("removing control group %s: %w", filepath.Base(directory), err)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("removing control group %s: %w", filepath.Base(directory), err)
		}
	}
}

func writeControl(file, value string) error {
	fd, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer fd.Close()
	_, err = fd.WriteString(value)
	return err
}
