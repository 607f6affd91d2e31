package qemu

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Names in a runtime, which is the root of QEMU's file system where it may be
// changed: so QEMU sees itself, its libraries and firmware, the kernel, and nothing
// of the host.
const (
	runtimeLoader   = "loader"
	runtimeQEMU     = "qemu"
	runtimeLib      = "lib"
	runtimeFirmware = "firmware"
	runtimeModules  = "modules"
	runtimeKernel   = "vmlinux"
	runtimeInitial  = "initial"
	runtimeKVM      = "dev/kvm"
)

// firmwareFiles are those that a machine of this kind starts with.
var firmwareFiles = []string{"bios-256k.bin", "kvmvapic.bin", "linuxboot_dma.bin", "pvh.bin"}

const kvmDevice = "/dev/kvm"

// makeRuntime returns the folder of what every machine's QEMU needs.
func (b *Backend) makeRuntime(ctx context.Context) (string, error) {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	if err := checkStatic(program); err != nil {
		return "", err
	}
	key := newFingerprint("runtime", 1, os.Geteuid())
	_, _ = key.hash.Write(program)
	for _, path := range []string{b.programs.qemu, b.programs.kernel.image} {
		if err := key.addFile(path); err != nil {
			return "", err
		}
	}
	b.digest = key.String()
	return b.cache.ensure(ctx, "runtime", b.digest, func(path string) error {
		return b.programs.fillRuntime(path, program)
	})
}

// checkStatic refuses a binary that could not be process 1 where there is no
// library.
func checkStatic(program []byte) error {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return errors.New("this program is not static, so that it cannot be a machine's first process: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

func (p programs) fillRuntime(folder string, program []byte) error {
	for _, name := range []string{"", runtimeLib, runtimeFirmware, runtimeModules, filepath.Dir(runtimeKVM)} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			return err
		}
	}
	for _, step := range []func() error{
		func() error { return p.copyQEMU(folder) },
		func() error { return p.copyFirmware(folder) },
		func() error { return p.copyKernel(folder, program) },
		func() error { return makeKVM(folder) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// copyQEMU copies QEMU, its emulation where that is a loadable part, and all
// libraries of the two, with the loader that starts them.
func (p programs) copyQEMU(folder string) error {
	if err := copyFile(p.qemu, filepath.Join(folder, runtimeQEMU), 0o755); err != nil {
		return err
	}
	wanted := []string{p.qemu}
	const part = "accel-tcg-x86_64.so"
	if path := filepath.Join(p.modules, part); isFile(path) {
		wanted = append(wanted, path)
		if err := copyFile(path, filepath.Join(folder, runtimeModules, part), 0o644); err != nil {
			return err
		}
	}
	loader, libraries, err := p.closure(wanted)
	if err != nil {
		return err
	}
	for name, path := range libraries {
		if err := copyFile(path, filepath.Join(folder, runtimeLib, name), 0o755); err != nil {
			return err
		}
	}
	return copyFile(loader, filepath.Join(folder, runtimeLoader), 0o755)
}

// closure finds the libraries that programs need, by name, and their loader.
func (p programs) closure(files []string) (loader string, libraries map[string]string, err error) {
	libraries = map[string]string{}
	for queue := files; len(queue) > 0; queue = queue[1:] {
		needed, interpreter, err := dependencies(queue[0])
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", queue[0], err)
		}
		if interpreter != "" {
			loader = interpreter
		}
		for _, name := range needed {
			if libraries[name] != "" {
				continue
			}
			if libraries[name] = p.library(name); libraries[name] == "" {
				return "", nil, fmt.Errorf("%s needs %s, which is not installed", filepath.Base(queue[0]), name)
			}
			queue = append(queue, libraries[name])
		}
	}
	if loader == "" {
		return "", nil, errors.New("QEMU has no dynamic loader")
	}
	return loader, libraries, nil
}

func (p programs) library(name string) string {
	for _, folder := range append(p.libraries, "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib") {
		if path := filepath.Join(folder, name); isFile(path) {
			return path
		}
	}
	return ""
}

func dependencies(path string) (needed []string, interpreter string, err error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	if section := file.Section(".interp"); section != nil {
		text, err := section.Data()
		if err != nil {
			return nil, "", err
		}
		interpreter = string(bytes.TrimRight(text, "\x00"))
	}
	needed, err = file.ImportedLibraries()
	return needed, interpreter, err
}

func (p programs) copyFirmware(folder string) error {
	for _, name := range firmwareFiles {
		found := ""
		for _, from := range p.firmware {
			if path := filepath.Join(from, name); isFile(path) {
				found = path
			}
		}
		if found == "" {
			return fmt.Errorf("there is no firmware %s in %v", name, p.firmware)
		}
		if err := copyFile(found, filepath.Join(folder, runtimeFirmware, name), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (p programs) copyKernel(folder string, program []byte) error {
	image, err := os.ReadFile(p.kernel.image)
	if err != nil {
		return err
	}
	kernel, err := unpackKernel(image)
	if err != nil {
		return fmt.Errorf("%s: %w", p.kernel.image, err)
	}
	modules, err := modulesOf(p.kernel.modules)
	if err != nil {
		return err
	}
	initial, err := packInitial(program, modules)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, runtimeKernel), kernel, 0o644),
		os.WriteFile(filepath.Join(folder, runtimeInitial), initial, 0o644),
	)
}

// makeKVM gives a runtime that is to be a root the one device QEMU may need, for
// the group that has it on the host. Only root can, and only root needs it.
func makeKVM(folder string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var status unix.Stat_t
	err := unix.Stat(kvmDevice, &status)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	path := filepath.Join(folder, runtimeKVM)
	if err := unix.Mknod(path, unix.S_IFCHR|0o660, int(status.Rdev)); err != nil {
		return err
	}
	if err := os.Chown(path, 0, int(status.Gid)); err != nil {
		return err
	}
	return os.Chmod(path, 0o660)
}
