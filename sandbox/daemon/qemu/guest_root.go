package qemu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// modulesFolder holds the kernel modules of the initial file system, whose
	// names sort in the order of loading.
	modulesFolder = "/modules"
	newRoot       = "/new"
	deviceWait    = 10 * time.Second
)

type mount struct {
	source, target, kind, options string
	flags                         uintptr
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil {
		return fmt.Errorf("mounting %s: %w", m.target, err)
	}
	return nil
}

func mountAll(mounts []mount) error {
	for _, m := range mounts {
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

func mountKernel() error {
	return mountAll([]mount{
		{source: "devtmpfs", target: "/dev", kind: "devtmpfs", options: "mode=0755"},
		{source: "proc", target: "/proc", kind: "proc"},
		{source: "sysfs", target: "/sys", kind: "sysfs"},
	})
}

func loadModules() error {
	files, err := filepath.Glob(modulesFolder + "/*.ko")
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, file := range files {
		if err := loadModule(file); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

func loadModule(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	err = unix.FinitModule(int(file.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// makeMachineRoot moves from the initial file system, which cannot be left by
// pivot_root, to one that guests can leave: the image's /usr, and what else it has
// in /image.
func makeMachineRoot() error {
	for _, device := range []string{"/dev/vda", "/dev/vdb"} {
		if err := await(device); err != nil {
			return err
		}
	}
	const image = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	err := mountAll([]mount{
		{source: "tmpfs", target: newRoot, kind: "tmpfs", options: "mode=0755,size=4m"},
		{source: "/dev/vda", target: newRoot + "/usr", kind: "erofs", flags: image},
		{source: "/dev/vdb", target: newRoot + "/image", kind: "erofs", flags: image},
		{source: "/dev", target: newRoot + "/dev", flags: unix.MS_MOVE},
		{source: "/proc", target: newRoot + "/proc", flags: unix.MS_MOVE},
		{source: "/sys", target: newRoot + "/sys", flags: unix.MS_MOVE},
		{source: "cgroup2", target: newRoot + "/sys/fs/cgroup", kind: "cgroup2"},
		{source: "tmpfs", target: newRoot + "/tmp", kind: "tmpfs", options: "size=1m"},
		{source: "devpts", target: newRoot + "/dev/pts", kind: "devpts"},
	})
	if err != nil {
		return err
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return os.Chdir("/")
}

// await waits for a device that its driver has yet to make.
func await(path string) error {
	deadline := time.Now().Add(deviceWait)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := os.Stat(path)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}
