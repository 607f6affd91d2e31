package guestfiles

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// found is a regular file that a selection came to.
type found struct {
	// folder is open only while the file is visited.
	folder int
	base   string
	// path is as the caller sees it.
	path string
}

// selector visits the files of a daemon.Selection in the order of their names.
type selector struct {
	ctx              context.Context
	include, exclude globs
	top              string
	visit            func(found) error
}

// selectFiles calls visit for every regular file that the selection names. A
// path that is a file is visited whatever the globs say.
func (t *Tree) selectFiles(ctx context.Context, selection daemon.Selection, visit func(found) error) error {
	include, err := compileGlobs(selection.Include)
	if err != nil {
		return err
	}
	exclude, err := compileGlobs(selection.Exclude)
	if err != nil {
		return err
	}
	fd, err := t.open(selection.Path, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var status unix.Stat_t
	if err := unix.Fstat(fd, &status); err != nil {
		return err
	}
	if !isDir(status) {
		return t.visitFile(selection.Path, status, visit)
	}
	if !selection.Recursive {
		return &daemon.ArgumentError{Reason: "path is a directory and recursive is false: " + selection.Path}
	}
	s := &selector{ctx: ctx, include: include, exclude: exclude, top: selection.Path, visit: visit}
	return s.walk(fd, ".", "", 0)
}

// visitFile visits the one file that a selection's path names, through links.
func (t *Tree) visitFile(name string, status unix.Stat_t, visit func(found) error) error {
	if kind(status) != unix.S_IFREG {
		return daemon.ErrWrongType
	}
	target, err := t.unlinked(name)
	if err != nil {
		return err
	}
	folder, base, err := t.parent(target)
	if err != nil {
		return err
	}
	defer unix.Close(folder)
	return visit(found{folder: folder, base: base, path: name})
}

// walk leaves out what it may not look into and what goes away meanwhile.
func (s *selector) walk(folder int, base, relative string, depth int) error {
	below, entries, err := readFolderAt(folder, base, depth)
	if err != nil {
		if depth == 0 {
			return err
		}
		return nil
	}
	defer below.Close()
	for _, e := range entries {
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		if err := s.enter(int(below.Fd()), e, path.Join(relative, e.base), depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *selector) enter(folder int, e entry, relative string, depth int) error {
	if s.exclude.match(relative) {
		return nil
	}
	switch kind(e.status) {
	case unix.S_IFDIR:
		return s.walk(folder, e.base, relative, depth+1)
	case unix.S_IFREG:
		if len(s.include) > 0 && !s.include.match(relative) {
			return nil
		}
		return s.visit(found{folder: folder, base: e.base, path: path.Join(s.top, relative)})
	}
	return nil
}

// errEnough ends a walk early without being an error of it.
var errEnough = errors.New("enough was found")
