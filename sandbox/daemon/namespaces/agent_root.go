package namespaces

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// scratch is where the guest's layer is mounted while it is built. It is a mount
// point only, in a mount namespace that nobody else sees.
const scratch = "/tmp"

// cloneTrees takes hold of host folders as detached, read-only mounts. It is
// done before the agent gives up the user that may reach them.
func cloneTrees(paths []string) ([]int, error) {
	var trees []int
	for _, path := range paths {
		tree, err := cloneTree(path)
		if err != nil {
			closeAll(trees)
			return nil, fmt.Errorf("taking %s: %w", path, err)
		}
		trees = append(trees, tree)
	}
	return trees, nil
}

func cloneTree(path string) (int, error) { return cloneMount(path, unix.MOUNT_ATTR_RDONLY) }

// cloneMount takes hold of a host folder with further attributes than those that
// every mount of a guest has.
func cloneMount(path string, attribute uint64) (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	attributes := unix.MountAttr{
		Attr_set:    attribute | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE,
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attributes); err != nil {
		_ = unix.Close(tree)
		return -1, err
	}
	return tree, nil
}

// attachTree mounts a detached tree below the working directory.
func attachTree(tree int, target string) error {
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// makeRoot builds the guest's root in a memory file system that bounds all that
// the guest writes, and leaves the agent's working directory there.
func makeRoot(config bootConfig, layer takenLayer, trees []int, result *bootResult) error {
	unix.Umask(0)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := layer.mount(config); err != nil {
		return err
	}
	if err := unix.Mount(scratch+"/root", scratch+"/root", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := os.Chdir(scratch + "/root"); err != nil {
		return err
	}
	if err := makeFolders(); err != nil {
		return err
	}
	if err := layer.mountUsr(config, result); err != nil {
		return fmt.Errorf("mounting usr: %w", err)
	}
	return fillRoot(config, trees)
}

func makeFolders() error {
	for _, folder := range []struct {
		path string
		mode os.FileMode
	}{
		{"usr", 0o755}, {"etc", 0o755}, {"dev", 0o755}, {"proc", 0o555}, {"run", 0o755}, {"home", 0o755},
		{"opt", 0o755}, {"srv", 0o755}, {"mnt", 0o755}, {"media", 0o755}, {"root", 0o700},
		{"tmp", os.ModeSticky | 0o777}, {"var", 0o755}, {"var/tmp", os.ModeSticky | 0o777},
		{"var/lib", 0o755}, {"var/cache", 0o755}, {"var/log", 0o755},
	} {
		if err := os.Mkdir(folder.path, folder.mode); err != nil {
			return err
		}
	}
	// Relative, because it is followed before the root has moved.
	return os.Symlink("../run", "var/run")
}

func fillRoot(config bootConfig, trees []int) error {
	plan := config.Image
	for name, target := range plan.Links {
		if err := os.Symlink(target, name); err != nil {
			return err
		}
	}
	if err := makeEtc(); err != nil {
		return err
	}
	for i, path := range plan.Trees {
		if err := makeTarget(path); err != nil {
			return err
		}
		if err := attachTree(trees[i], "."+path); err != nil {
			return fmt.Errorf("mounting %s: %w", path, err)
		}
	}
	if err := attachMounts(config.Mounts, trees[len(plan.Trees):]); err != nil {
		return err
	}
	return makeDev()
}

// makeTarget makes the mount point of a host path: a folder or an empty file.
func makeTarget(path string) error {
	info, err := os.Stat(path)
	// A folder that the agent's user cannot reach is an interpreter's.
	if err != nil || info.IsDir() {
		return os.MkdirAll("."+path, 0o755)
	}
	if err := os.MkdirAll("."+filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile("."+path, nil, 0o644)
}

// enterRoot makes the working directory the root and lets go of the host's.
func enterRoot() error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return os.Chdir("/")
}

// maskProc covers what of /proc speaks of the host or changes it.
func maskProc() error {
	for _, path := range []string{"proc/acpi", "proc/asound", "proc/scsi", "proc/driver"} {
		if err := ifThere(unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=0,nr_inodes=2")); err != nil {
			return fmt.Errorf("covering %s: %w", path, err)
		}
	}
	for _, path := range []string{"proc/kcore", "proc/keys", "proc/key-users", "proc/latency_stats", "proc/timer_list",
		"proc/sched_debug", "proc/kmsg", "proc/kallsyms", "proc/config.gz", "proc/interrupts", "proc/iomem",
		"proc/ioports", "proc/kpagecount", "proc/kpageflags", "proc/kpagecgroup", "proc/modules", "proc/slabinfo",
		"proc/vmallocinfo"} {
		if err := ifThere(unix.Mount("dev/null", path, "", unix.MS_BIND, "")); err != nil {
			return fmt.Errorf("covering %s: %w", path, err)
		}
	}
	for _, path := range []string{"proc/sys", "proc/sysrq-trigger", "proc/irq", "proc/bus", "proc/fs"} {
		if err := ifThere(freeze(path)); err != nil {
			return fmt.Errorf("freezing %s: %w", path, err)
		}
	}
	return nil
}

// freeze makes a path read-only by a mount of its own.
func freeze(path string) error {
	tree, err := cloneTree(path)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return attachTree(tree, path)
}

func ifThere(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
