package namespaces

import (
	"fmt"
	"os"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// sources are the host folders of the mounts that an image brings.
func sources(mounts []daemon.Mount) []string {
	paths := make([]string, 0, len(mounts))
	for _, m := range mounts {
		paths = append(paths, m.Source)
	}
	return paths
}

// attachMounts puts the folders that cloneTrees took at their targets.
func attachMounts(mounts []daemon.Mount, trees []int) error {
	for i, m := range mounts {
		if err := os.MkdirAll("."+m.Target, 0o755); err != nil {
			return err
		}
		if err := attachTree(trees[i], "."+m.Target); err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
	}
	return nil
}
