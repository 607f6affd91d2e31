package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// place is where a mode's back end has its programs and images.
type place struct{ root, cache, temporary string }

// place of a back end that needs files. Another user reaches neither this one's
// cache nor programs that were unpacked there, and gets links to both.
func (m mode) place(o options) (place, error) {
	find := backends[o.backend].root
	if find == nil {
		return place{}, nil
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		return place{}, err
	}
	p := place{root: find(), cache: filepath.Join(folder, "sandbox-operator", "machines")}
	if m.user == os.Geteuid() {
		return p, nil
	}
	return m.linked(p)
}

func (m mode) linked(from place) (p place, err error) {
	if p.temporary, err = os.MkdirTemp("", "conformance-place-"); err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove())
		}
	}()
	p.root, p.cache = from.root, filepath.Join(p.temporary, "cache")
	if from.root != "/" {
		p.root = filepath.Join(p.temporary, "root")
		if err := linkTree(from.root, p.root); err != nil {
			return p, err
		}
	}
	if err := os.Mkdir(p.cache, 0o755); err != nil {
		return p, err
	}
	images, err := filepath.Glob(filepath.Join(from.cache, "usr-*"))
	if err != nil {
		return p, err
	}
	for _, image := range images {
		if err := os.Link(image, filepath.Join(p.cache, filepath.Base(image))); err != nil {
			return p, fmt.Errorf("sharing an image: %w", err)
		}
	}
	return p, errors.Join(os.Chmod(p.temporary, 0o755), os.Chown(p.cache, m.user, m.user))
}

// linkTree shows a folder at another path, by links to its files.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			return os.Mkdir(target, 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(text, target)
		}
		return os.Link(path, target)
	})
}

// config completes a configuration.
func (p place) config(o options, c daemon.Config) daemon.Config {
	c.Backend, c.QEMURoot, c.QEMUCache = o.backend, p.root, p.cache
	return c
}

func (p place) remove() error {
	if p.temporary == "" {
		return nil
	}
	return os.RemoveAll(p.temporary)
}
