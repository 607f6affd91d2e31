package qemu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sized makes a file without content of a size.
func sized(t *testing.T, path string, size int64) {
	t.Helper()
	write(t, path, "")
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func TestSelectUsr(t *testing.T) {
	usr := t.TempDir()
	const large = largeFolder + 1
	for _, path := range []string{"bin/node", "lib/x86_64-linux-gnu/libc.so", "lib/python3.11/os.py", "lib/node_modules/npm/x", "local/bin/tool",
		"lib/jvm/java", "share/doc/readme", "local/go/bin/go", "include/a.h"} {
		sized(t, filepath.Join(usr, path), large)
	}
	write(t, filepath.Join(usr, "share/small/x"), "x")
	write(t, filepath.Join(usr, "bin/hidden"), "secret")
	if err := os.Chmod(filepath.Join(usr, "bin/hidden"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(usr, "share/closed/x"), "secret")
	if err := os.Chmod(filepath.Join(usr, "share/closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := selectUsr(usr)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(first.without)
	want := []string{"bin/hidden", "include", "lib/jvm", "local/go", "share/closed", "share/doc"}
	if diff := cmp.Diff(want, first.without); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	key := first.key.String()
	if again, err := selectUsr(usr); err != nil || again.key.String() != key {
		t.Errorf("the same folder has another key, %v", err)
	}
	sized(t, filepath.Join(usr, "bin/node"), large+1)
	if changed, err := selectUsr(usr); err != nil || changed.key.String() == key {
		t.Errorf("a changed folder has the same key, %v", err)
	}
}

func TestCopyTree(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "new", "tree")
	write(t, filepath.Join(from, "d/f"), "content")
	write(t, filepath.Join(from, "hidden"), "secret")
	long := time.Unix(1_000_000_000, 0)
	for _, err := range []error{
		os.Symlink("d/f", filepath.Join(from, "link")), os.Chmod(filepath.Join(from, "d/f"), 0o755),
		os.Chmod(filepath.Join(from, "hidden"), 0o600), os.Chtimes(filepath.Join(from, "d/f"), long, long),
		copyTree(from, to),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(to, "link"))
	if err != nil || info.Size() != 7 || info.Mode() != 0o755 || !info.ModTime().Equal(long) {
		t.Errorf("the copy is %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(to, "hidden")); !os.IsNotExist(err) {
		t.Errorf("what not everybody may read was copied: %v", err)
	}
	// A path may also be one file.
	single := filepath.Join(t.TempDir(), "single")
	if err := copyTree(filepath.Join(from, "d/f"), single); err != nil {
		t.Fatal(err)
	}
}

func TestFindPrograms_missing(t *testing.T) {
	root := t.TempDir()
	_, err := findPrograms(root)
	for _, text := range []string{"qemu-system-x86", "linux-image-cloud-amd64", "erofs-utils", "seabios", root} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Fatalf("error is %v, want %q in it", err, text)
		}
	}
	write(t, filepath.Join(root, "usr/bin/qemu-system-x86_64"), "")
	write(t, filepath.Join(root, "usr/bin/mkfs.erofs"), "")
	write(t, filepath.Join(root, "usr/share/seabios/bios-256k.bin"), "")
	if _, err = findPrograms(root); err == nil || strings.Contains(err.Error(), "(package erofs-utils)") || !strings.Contains(err.Error(), "no cloud kernel") {
		t.Errorf("error is %v", err)
	}
	write(t, filepath.Join(root, "boot/vmlinuz-6.1.0-1-cloud-amd64"), "")
	write(t, filepath.Join(root, "lib/modules/6.1.0-1-cloud-amd64/modules.builtin"), "")
	if _, err = findPrograms(root); err != nil {
		t.Error(err)
	}
}
