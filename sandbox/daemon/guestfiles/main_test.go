package guestfiles_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestfiles"
)

// world is a root with something outside of it.
type world struct {
	t       *testing.T
	tree    *guestfiles.Tree
	folder  string
	outside string
}

// newWorld has the files in the root, and beside the root a file "secret".
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	w := &world{t: t, folder: filepath.Join(t.TempDir(), "root")}
	w.outside = filepath.Join(filepath.Dir(w.folder), "secret")
	w.must(os.Mkdir(w.folder, 0o755))
	w.must(os.WriteFile(w.outside, []byte("secret"), 0o644))
	for name, content := range files {
		w.put(name, content)
	}
	tree, err := guestfiles.Open(w.folder)
	w.must(err)
	w.tree = tree
	t.Cleanup(func() { w.must(tree.Close()) })
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// put makes a file with its folders, or a folder where the name ends in a slash.
func (w *world) put(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.folder, name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	if strings.HasSuffix(name, "/") {
		w.must(os.MkdirAll(path, 0o755))
		return
	}
	w.must(os.WriteFile(path, []byte(content), 0o644))
}

func (w *world) link(name, target string) {
	w.t.Helper()
	w.must(os.Symlink(target, filepath.Join(w.folder, name)))
}

// content is that of a file of the root, or why there is none.
func (w *world) content(name string) string {
	content, err := os.ReadFile(filepath.Join(w.folder, name))
	if err != nil {
		return "error: " + errors.Unwrap(err).Error()
	}
	return string(content)
}

func (w *world) mode(name string) fs.FileMode {
	w.t.Helper()
	info, err := os.Lstat(filepath.Join(w.folder, name))
	w.must(err)
	return info.Mode()
}

// all lists the root's paths, folders with a slash at their end.
func (w *world) all() []string {
	var paths []string
	_ = filepath.WalkDir(w.folder, func(path string, entry fs.DirEntry, err error) error {
		w.must(err)
		name, _ := filepath.Rel(w.folder, path)
		switch {
		case name == ".":
			return nil
		case entry.IsDir():
			name += "/"
		}
		paths = append(paths, name)
		return nil
	})
	return paths
}

// untouched fails the test when the file outside of the root has changed.
func (w *world) untouched() {
	w.t.Helper()
	info, err := os.Lstat(w.outside)
	w.must(err)
	content, err := os.ReadFile(w.outside)
	w.must(err)
	if string(content) != "secret" || info.Mode() != 0o644 {
		w.t.Errorf("outside of the root is %q with mode %v", content, info.Mode())
	}
}

// wants compares an error with one of package daemon's.
func wants(t *testing.T, got, want error) {
	t.Helper()
	var argument *daemon.ArgumentError
	if want != nil && errors.As(want, &argument) {
		if !errors.As(got, &argument) {
			t.Errorf("error is %v, want an argument error", got)
		}
		return
	}
	if !errors.Is(guestfiles.Named(got), want) {
		t.Errorf("error is %v, want %v", got, want)
	}
}

var errArgument = &daemon.ArgumentError{}

var background = context.Background()
