package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// sharedFolders are those of an image that every sandbox of it may share, for
// writing too (contracts/iii-sandbox.md §6.1).
var sharedFolders = []string{
	"/app", "/bin", "/boot", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt",
	"/opt", "/root", "/sbin", "/service", "/srv", "/usr", "/var",
}

// overlaySharedFolders covers each folder with an overlay whose changes stay in
// upper, which lies in this sandbox alone. It needs CAP_SYS_ADMIN. Folders that
// are covered already are left alone. It stops at the first failure.
func overlaySharedFolders(upper string, folders []string) error {
	mounted, err := mountPoints()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		info, err := os.Lstat(folder)
		if err != nil || !info.IsDir() || mounted.isOverlaidBy(folder, upper) {
			continue
		}
		if err := overlay(folder, filepath.Join(upper, filepath.Base(folder)), mounted.below(folder)); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// overlay hides what is mounted inside the folder, so that is put aside first
// and back afterwards (resolv.conf is often such a mount).
func overlay(folder, upper string, inner []string) error {
	for _, name := range []string{"changes", "work", "inner"} {
		if err := os.MkdirAll(filepath.Join(upper, name), 0o755); err != nil {
			return err
		}
	}
	aside := make([]string, len(inner))
	for i, path := range inner {
		aside[i] = filepath.Join(upper, "inner", fmt.Sprint(i))
		if err := bindOnto(path, aside[i]); err != nil {
			return fmt.Errorf("keeping an inner mount: %w", err)
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", folder, filepath.Join(upper, "changes"), filepath.Join(upper, "work"))
	if err := syscall.Mount("overlay", folder, "overlay", 0, options); err != nil {
		return err
	}
	for i, path := range inner {
		if err := syscall.Mount(aside[i], path, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("restoring an inner mount: %w", err)
		}
		_ = syscall.Unmount(aside[i], syscall.MNT_DETACH)
	}
	return nil
}

func bindOnto(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else {
		err = os.WriteFile(target, nil, 0o600)
	}
	return errors.Join(err, syscall.Mount(source, target, "", syscall.MS_BIND, ""))
}

// mounts maps a mount point to the options of its topmost mount.
type mounts map[string]string

func mountPoints() (mounts, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	found := mounts{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 5 {
			found[unescape(fields[4])] = fields[len(fields)-1]
		}
	}
	return found, lines.Err()
}

// unescape undoes the kernel's octal escapes of white space in paths.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

func (m mounts) isOverlaidBy(folder, upper string) bool {
	return strings.Contains(m[folder], "upperdir="+upper+"/")
}

func (m mounts) below(folder string) []string {
	var found []string
	for path := range m {
		if strings.HasPrefix(path, folder+"/") {
			found = append(found, path)
		}
	}
	// Outer mounts before those inside them.
	slices.Sort(found)
	return found
}
