package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// largeFolder is from which size on a folder that no interpreter needs is left out
// of the image, in bytes: compilers, manuals, SDKs.
const largeFolder = 96 << 20

// largeParents are the folders of /usr whose large members may be left out.
var largeParents = map[string]bool{".": true, "lib": true, "share": true, "local": true, "local/lib": true, "local/share": true}

// kept are folders that the presets are made of, whatever their size.
var kept = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "local", "share", "local/bin", "local/sbin", "local/lib", "local/share", "lib/node_modules", "local/lib/node_modules"}

// mayBeLarge says whether a folder stays in the image at any size.
func mayBeLarge(path string) bool {
	for _, each := range kept {
		if path == each {
			return true
		}
	}
	name := filepath.Base(path)
	return strings.HasPrefix(name, "python") || strings.HasSuffix(name, "-linux-gnu")
}

// selection is what of /usr an image has.
type selection struct {
	key fingerprint
	// without are the paths that it leaves out, sorted.
	without []string
}

// selectUsr walks /usr once.
func selectUsr(usr string) (selection, error) {
	s := selection{key: newFingerprint("usr", 1)}
	sizes := map[string]int64{}
	err := walkReadable(usr, func(path string, info fs.FileInfo, skipped bool) error {
		if skipped {
			s.without = append(s.without, path)
			return nil
		}
		_, _ = fmt.Fprintf(s.key.hash, "%s %o %d %d\n", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		for folder := filepath.Dir(path); folder != "."; folder = filepath.Dir(folder) {
			if largeParents[filepath.Dir(folder)] {
				sizes[folder] += info.Size()
			}
		}
		return nil
	})
	for folder, size := range sizes {
		if size > largeFolder && !mayBeLarge(folder) {
			s.without = append(s.without, folder)
		}
	}
	return s, err
}

// makeFilesystem makes a read-only file system of a folder.
func (p programs) makeFilesystem(ctx context.Context, folder, file string, without []string) error {
	arguments := []string{"-d1"}
	for _, path := range without {
		arguments = append(arguments, "--exclude-path="+path)
	}
	command := p.command(ctx, p.makeErofs, append(arguments, file, folder)...)
	// The kernel ends it with the thread that started it, which so must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.erofs: %w: %s", err, lastBytes(output, 500))
	}
	return nil
}

func lastBytes(text []byte, n int) []byte { return text[max(0, len(text)-n):] }

// usrImage returns the file system of the host's /usr, which it makes if the cache
// has none.
func (b *Backend) usrImage(ctx context.Context) (*os.File, error) {
	chosen, err := selectUsr("/usr")
	if err != nil {
		return nil, fmt.Errorf("looking at /usr: %w", err)
	}
	return b.cache.file(ctx, "usr", chosen.key.String(), func(path string) error {
		b.logger.Info("Making the image of /usr, which takes a while and is done once", "leftOut", len(chosen.without))
		return b.programs.makeFilesystem(ctx, "/usr", path, chosen.without)
	})
}

// partsImage returns the file system of what an image has beside /usr: the trees of
// the root's plan, and the folders of its mounts.
func (b *Backend) partsImage(ctx context.Context, mounts []daemon.Mount) (*os.File, error) {
	parts := map[string]string{}
	for i, path := range b.plan.Trees {
		parts[filepath.Join("trees", strconv.Itoa(i))] = path
	}
	for i, m := range mounts {
		parts[filepath.Join("mounts", strconv.Itoa(i))] = m.Source
	}
	key := newFingerprint("parts", 1)
	for i := range len(b.plan.Trees) + len(mounts) {
		name := filepath.Join("trees", strconv.Itoa(i))
		if i >= len(b.plan.Trees) {
			name = filepath.Join("mounts", strconv.Itoa(i-len(b.plan.Trees)))
		}
		key.add(name)
		err := walkReadable(resolved(parts[name]), func(path string, info fs.FileInfo, _ bool) error {
			_, _ = fmt.Fprintf(key.hash, "%s %o %d %d\n", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("looking at what the image has: %w", err)
		}
	}
	return b.cache.file(ctx, "parts", key.String(), func(path string) error {
		return b.makeParts(ctx, parts, path)
	})
}

// resolved follows links of the path itself; where that fails the path does, later.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

func (b *Backend) makeParts(ctx context.Context, parts map[string]string, file string) (err error) {
	staging, err := os.MkdirTemp(b.cache.folder, fmt.Sprintf("staging-*.%d", os.Getpid()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	if err := os.Chmod(staging, 0o755); err != nil {
		return err
	}
	for name, source := range parts {
		if err := copyTree(resolved(source), filepath.Join(staging, name)); err != nil {
			return fmt.Errorf("copying %s: %w", source, err)
		}
	}
	for _, folder := range []string{"trees", "mounts"} {
		if err := os.MkdirAll(filepath.Join(staging, folder), 0o755); err != nil {
			return err
		}
	}
	return b.programs.makeFilesystem(ctx, staging, file, nil)
}

// copyTree copies what everybody may read, with modes and links.
func copyTree(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return walkReadable(from, func(path string, info fs.FileInfo, skipped bool) error {
		source, target := filepath.Join(from, path), filepath.Join(to, path)
		switch {
		case skipped:
			return nil
		case info.IsDir():
			return os.Mkdir(target, info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			text, err := os.Readlink(source)
			if err != nil {
				return err
			}
			return os.Symlink(text, target)
		}
		if err := copyFile(source, target, info.Mode().Perm()); err != nil {
			return err
		}
		// Compiled Python is good only beside a source of the same time.
		return os.Chtimes(target, info.ModTime(), info.ModTime())
	})
}

func copyFile(from, to string, mode fs.FileMode) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	_, err = io.Copy(target, source)
	return err
}

// command runs a program of the packages, with their libraries and nothing of this
// process's environment.
func (p programs) command(ctx context.Context, program string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Env = []string{"PATH=/usr/bin:/bin", "LD_LIBRARY_PATH=" + strings.Join(p.libraries, ":")}
	return command
}
