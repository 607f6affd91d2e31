package namespaces

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Layer is where the own layer of a back end's only guest is mounted, by somebody
// with more rights than its agent has: a kernel before 6.6 keeps none of an overlay's
// marks for a user namespace, so that folders in /usr could not be renamed.
type Layer struct {
	// Scratch is a memory file system for all that the guest writes, Usr an overlay
	// of it over /usr.
	Scratch, Usr string
}

// Make mounts the layer for the guest with the first user numbers. It needs all
// rights over this machine. The bound is in bytes.
func (l Layer) Make(plan RootPlan, bound int64) error {
	for _, folder := range []string{l.Scratch, l.Usr} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", l.Scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, scratchOptions(bound)); err != nil {
		return err
	}
	if err := makeUpper(l.Scratch, plan); err != nil {
		return err
	}
	for _, path := range []string{"root", "upper", "work"} {
		if err := giveToGuest(filepath.Join(l.Scratch, path)); err != nil {
			return err
		}
	}
	return errors.Join(giveToGuest(l.Scratch),
		unix.Mount("overlay", l.Usr, "overlay", unix.MS_NOSUID|unix.MS_NODEV, overlayOptions(l.Scratch)))
}

// giveToGuest makes the first guest's root the owner of a path and of all below it.
func giveToGuest(path string) error {
	return filepath.WalkDir(path, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, firstOwner, firstOwner))
	})
}

func scratchOptions(bound int64) string {
	return fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", bound, max(bound>>12, 16<<10))
}

func overlayOptions(folder string) string {
	return fmt.Sprintf("lowerdir=/usr,upperdir=%s/upper,workdir=%s/work", folder, folder)
}

// makeUpper makes the folders of a layer: for the guest's root, for the overlay, and
// the twins of those in which package managers make files.
func makeUpper(folder string, plan RootPlan) error {
	for _, path := range []string{"root", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(folder, path), 0o755); err != nil {
			return err
		}
	}
	for _, path := range plan.UsrDirs {
		if err := os.MkdirAll(filepath.Join(folder, "upper", strings.TrimPrefix(path, "/usr")), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// takenLayer is a Layer that an agent holds: detached mounts, or -1 for an agent that
// makes its own.
type takenLayer struct{ scratch, usr int }

// takeLayer is done before the agent gives up the user that may reach it.
func takeLayer(layer *Layer) (taken takenLayer, err error) {
	taken = takenLayer{-1, -1}
	if layer == nil {
		return taken, nil
	}
	if taken.scratch, err = cloneMount(layer.Scratch, 0); err != nil {
		return taken, err
	}
	taken.usr, err = cloneMount(layer.Usr, 0)
	return taken, err
}

func (t takenLayer) close() {
	for _, fd := range []int{t.scratch, t.usr} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// mount puts the layer at scratch, or makes one there.
func (t takenLayer) mount(config bootConfig) error {
	if t.scratch >= 0 {
		return unix.MoveMount(t.scratch, "", unix.AT_FDCWD, scratch, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err := unix.Mount("tmpfs", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, scratchOptions(config.DiskBytes)); err != nil {
		return err
	}
	return makeUpper(scratch, config.Image)
}

// mountUsr lays the guest's own layer over the host's /usr, or gives the bare /usr
// where the kernel refuses.
func (t takenLayer) mountUsr(config bootConfig, result *bootResult) error {
	if t.usr >= 0 {
		return attachTree(t.usr, "usr")
	}
	options := overlayOptions(scratch)
	if config.UserNamespace {
		options += ",userxattr"
	}
	if unix.Mount("overlay", "usr", "overlay", unix.MS_NOSUID|unix.MS_NODEV, options) == nil {
		return nil
	}
	result.readOnlyUsr = true
	tree, err := cloneTree("/usr")
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return attachTree(tree, "usr")
}
