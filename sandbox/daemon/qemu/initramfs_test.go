package qemu

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
)

// kernelModules makes a folder of modules, the last of the needed ones built in.
func kernelModules(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	last := len(neededModules) - 1
	for _, name := range neededModules[:last] {
		write(t, filepath.Join(folder, "kernel/drivers", name+".ko"), "module "+name)
	}
	write(t, filepath.Join(folder, "kernel/drivers/other.ko"), "")
	write(t, filepath.Join(folder, "modules.builtin"), "kernel/net/"+neededModules[last]+".ko\n")
	return folder
}

func TestPackInitial(t *testing.T) {
	modules, err := modulesOf(kernelModules(t))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := packInitial([]byte("program"), modules)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for reader := cpio.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = header.FileInfo().Mode().String() + " " + string(content)
	}
	want := map[string]string{
		"dev": "drwxr-xr-x ", "proc": "drwxr-xr-x ", "sys": "drwxr-xr-x ", "new": "drwxr-xr-x ", "modules": "drwxr-xr-x ",
		"init":                                "-rwxr-xr-x program",
		"modules/00-virtio_ring.ko":           "-rw-r--r-- module virtio_ring",
		"modules/01-virtio.ko":                "-rw-r--r-- module virtio",
		"modules/02-virtio_pci_modern_dev.ko": "-rw-r--r-- module virtio_pci_modern_dev",
		"modules/03-virtio_pci_legacy_dev.ko": "-rw-r--r-- module virtio_pci_legacy_dev",
		"modules/04-virtio_pci.ko":            "-rw-r--r-- module virtio_pci",
		"modules/05-libcrc32c.ko":             "-rw-r--r-- module libcrc32c",
		"modules/06-virtio_blk.ko":            "-rw-r--r-- module virtio_blk",
		"modules/07-virtio_console.ko":        "-rw-r--r-- module virtio_console",
		"modules/08-erofs.ko":                 "-rw-r--r-- module erofs",
		"modules/09-overlay.ko":               "-rw-r--r-- module overlay",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

func TestModulesOf_missing(t *testing.T) {
	folder := kernelModules(t)
	if err := os.Remove(filepath.Join(folder, "kernel/drivers/erofs.ko")); err != nil {
		t.Fatal(err)
	}
	if _, err := modulesOf(folder); err == nil || !strings.Contains(err.Error(), "module erofs") {
		t.Errorf("error is %v", err)
	}
}
