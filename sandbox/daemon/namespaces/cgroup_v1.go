package namespaces

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupV1 has one hierarchy a controller; groups are made below the daemon's
// own, so that its bounds hold for guests too.
type cgroupV1 struct {
	parents map[string]string
}

func detectCgroupV1(taken map[string]bool) cgroupKind {
	own := ownCgroups()
	kind := &cgroupV1{parents: map[string]string{}}
	for _, mount := range cgroupMounts("cgroup") {
		for _, name := range []string{"memory", "pids", "cpu"} {
			if taken[name] || !slices.Contains(strings.Split(mount.options, ","), name) {
				continue
			}
			parent := filepath.Join(mount.path, own[name])
			if _, err := os.Stat(parent); err != nil {
				parent = mount.path
			}
			kind.parents[name] = parent
			sweepGroups(parent)
		}
	}
	if len(kind.parents) == 0 {
		return nil
	}
	return kind
}

func (c *cgroupV1) controllers() []string {
	var names []string
	for _, name := range []string{"memory", "pids", "cpu"} {
		if c.parents[name] != "" {
			names = append(names, name)
		}
	}
	return names
}

func (c *cgroupV1) describe() string {
	return "cgroup v1: " + strings.Join(c.controllers(), ", ")
}

func (c *cgroupV1) create(group *cgroup, name string, limits cgroupLimits) error {
	made := map[string]bool{}
	for _, controller := range c.controllers() {
		directory := filepath.Join(c.parents[controller], name)
		// Controllers mounted together share the directory.
		if !made[directory] {
			if err := group.mkdir(directory); err != nil {
				return err
			}
			made[directory] = true
		}
		if err := c.limit(group, controller, directory, limits); err != nil {
			return fmt.Errorf("controller %s: %w", controller, err)
		}
	}
	return nil
}

func (c *cgroupV1) limit(group *cgroup, controller, directory string, limits cgroupLimits) error {
	switch controller {
	case "memory":
		group.agentFiles = append(group.agentFiles, filepath.Join(directory, "cgroup.procs"))
		bytes := fmt.Sprint(limits.memoryBytes)
		if err := writeControl(filepath.Join(directory, "memory.limit_in_bytes"), bytes); err != nil {
			return err
		}
		// Absent where the kernel does not account for swap.
		err := writeControl(filepath.Join(directory, "memory.memsw.limit_in_bytes"), bytes)
		if os.IsNotExist(err) {
			return nil
		}
		return err
	case "pids":
		group.threadFiles = append(group.threadFiles, filepath.Join(directory, "tasks"))
		// Process 1 and the spawning thread count too.
		return writeControl(filepath.Join(directory, "pids.max"), fmt.Sprint(limits.processes+2))
	default:
		group.threadFiles = append(group.threadFiles, filepath.Join(directory, "tasks"))
		if err := writeControl(filepath.Join(directory, "cpu.cfs_period_us"), "100000"); err != nil {
			return err
		}
		return writeControl(filepath.Join(directory, "cpu.cfs_quota_us"), fmt.Sprint(limits.cpus*100000))
	}
}

type cgroupMount struct{ path, options string }

// cgroupMounts lists the mounts of one file system type.
func cgroupMounts(kind string) []cgroupMount {
	file, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil
	}
	defer file.Close()
	var mounts []cgroupMount
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 4 && fields[2] == kind {
			mounts = append(mounts, cgroupMount{path: fields[1], options: fields[3]})
		}
	}
	return mounts
}

// ownCgroups maps a controller to the daemon's own group; version 2 has the
// empty name.
func ownCgroups() map[string]string {
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	groups := map[string]string{}
	for line := range strings.Lines(string(content)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for _, name := range strings.Split(fields[1], ",") {
			groups[name] = fields[2]
		}
	}
	return groups
}
