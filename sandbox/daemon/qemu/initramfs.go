package qemu

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cavaliergopher/cpio"
)

// neededModules are what the machine's devices and file systems take, in the order
// of loading: each after those that it uses.
var neededModules = []string{
	"virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci",
	"libcrc32c", "virtio_blk", "virtio_console", "erofs", "overlay", "tun",
}

// modulesOf finds the files of the needed modules. One that the kernel has built in
// has none.
func modulesOf(folder string) ([]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(filepath.Join(folder, "kernel"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".ko" && entry.Type().IsRegular() {
			found[entry.Name()] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	builtIn, err := os.ReadFile(filepath.Join(folder, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range neededModules {
		path, there := found[name+".ko"]
		if there {
			paths = append(paths, path)
		} else if !bytes.Contains(builtIn, []byte("/"+name+".ko\n")) {
			return nil, fmt.Errorf("the kernel has no uncompressed module %s below %s", name, folder)
		}
	}
	return paths, nil
}

// packInitial makes the initial file system: this binary as process 1, and the
// modules, numbered in their order. The console that process 1 starts with is in
// the one that every kernel has built in.
func packInitial(program []byte, modules []string) ([]byte, error) {
	var archive bytes.Buffer
	w := cpio.NewWriter(&archive)
	for _, folder := range []string{"dev", "proc", "sys", "new", "modules"} {
		if err := w.WriteHeader(&cpio.Header{Name: folder, Mode: cpio.TypeDir | 0o755, Links: 2}); err != nil {
			return nil, err
		}
	}
	if err := addFile(w, initPath[1:], 0o755, program); err != nil {
		return nil, err
	}
	for i, path := range modules {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := addFile(w, fmt.Sprintf("modules/%02d-%s", i, filepath.Base(path)), 0o644, content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

func addFile(w *cpio.Writer, name string, mode cpio.FileMode, content []byte) error {
	if err := w.WriteHeader(&cpio.Header{Name: name, Mode: cpio.TypeReg | mode, Links: 1, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
