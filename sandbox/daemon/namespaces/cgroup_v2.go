package namespaces

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupV2 has one hierarchy for all controllers. A guest is a group with the
// bound on memory, which holds the agent, and in it a threaded group with the
// bounds on processes and processor time, which the spawning thread joins.
type cgroupV2 struct {
	parent string
	names  []string
}

// innerGroup is the threaded group's name.
const innerGroup = "programs"

func detectCgroupV2(taken map[string]bool) cgroupKind {
	for _, mount := range cgroupMounts("cgroup2") {
		content, err := os.ReadFile(filepath.Join(mount.path, "cgroup.controllers"))
		if err != nil {
			continue
		}
		kind := &cgroupV2{parent: mount.path}
		listed := strings.Fields(string(content))
		for _, name := range []string{"memory", "pids", "cpu"} {
			if !taken[name] && slices.Contains(listed, name) {
				kind.names = append(kind.names, name)
			}
		}
		if len(kind.names) > 0 {
			sweepGroups(mount.path)
			return kind
		}
	}
	return nil
}

func (c *cgroupV2) controllers() []string { return c.names }

func (c *cgroupV2) describe() string {
	return "cgroup v2: " + strings.Join(c.names, ", ")
}

func (c *cgroupV2) create(group *cgroup, name string, limits cgroupLimits) error {
	if err := c.enable(c.parent, c.names); err != nil {
		return err
	}
	outer := filepath.Join(c.parent, name)
	inner := filepath.Join(outer, innerGroup)
	if err := group.mkdir(outer); err != nil {
		return err
	}
	if err := group.mkdir(inner); err != nil {
		return err
	}
	if err := writeControl(filepath.Join(inner, "cgroup.type"), "threaded"); err != nil {
		return err
	}
	threaded := slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return name == "memory" })
	if err := c.enable(outer, threaded); err != nil {
		return err
	}
	group.agentFiles = append(group.agentFiles, filepath.Join(outer, "cgroup.procs"))
	group.threadFiles = append(group.threadFiles, filepath.Join(inner, "cgroup.threads"))
	return c.limit(outer, inner, limits)
}

// enable gives the children of a group the controllers.
func (c *cgroupV2) enable(directory string, names []string) error {
	for _, name := range names {
		if err := writeControl(filepath.Join(directory, "cgroup.subtree_control"), "+"+name); err != nil {
			return fmt.Errorf("enabling controller %s: %w", name, err)
		}
	}
	return nil
}

func (c *cgroupV2) limit(outer, inner string, limits cgroupLimits) error {
	values := map[string][2]string{
		"memory": {filepath.Join(outer, "memory.max"), fmt.Sprint(limits.memoryBytes)},
		// Process 1 and the spawning thread count too.
		"pids": {filepath.Join(inner, "pids.max"), fmt.Sprint(limits.processes + 2)},
		"cpu":  {filepath.Join(inner, "cpu.max"), fmt.Sprintf("%d 100000", limits.cpus*100000)},
	}
	for _, name := range c.names {
		if err := writeControl(values[name][0], values[name][1]); err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
	}
	if !slices.Contains(c.names, "memory") {
		return nil
	}
	// Absent where the kernel has no swap.
	err := writeControl(filepath.Join(outer, "memory.swap.max"), "0")
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
