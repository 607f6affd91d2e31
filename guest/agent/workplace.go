package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// workplace is where a program lies, and what to take away afterwards.
type workplace struct {
	folder  string
	program string
	written []string
	// made are folders that were made for files, outer before inner.
	made []string
}

// newWorkplace returns a workplace to remove even when it fails.
func newWorkplace(home folder, request wire.RunRequest) (*workplace, error) {
	place := &workplace{folder: request.Folder}
	if place.folder == "" {
		place.folder = filepath.Join(home.runs(), freshName())
		if !request.KeepFiles {
			place.written = append(place.written, place.folder)
		}
	}
	place.program = filepath.Join(place.folder, "run-"+freshName()+"."+request.Language.Extension())
	place.written = append(place.written, place.program)
	if err := writeAtomically(place.program, []byte(request.Source), 0o644); err != nil {
		return place, err
	}
	for _, file := range request.Files {
		if err := place.write(file, request.KeepFiles); err != nil {
			return place, fmt.Errorf("file %q: %w", file.Path, err)
		}
	}
	return place, nil
}

func (w *workplace) write(file wire.File, keep bool) error {
	path := file.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.folder, path)
	}
	mode, err := fileMode(file.Mode)
	if err != nil {
		return err
	}
	if !keep {
		w.made = append(w.made, missingFolders(filepath.Dir(path))...)
		w.written = append(w.written, path)
	}
	return writeAtomically(path, file.Content, mode)
}

// missingFolders lists path and its parents as far as they are not there yet,
// outer before inner.
func missingFolders(path string) (missing []string) {
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		if _, err := os.Lstat(path); err == nil {
			break
		}
		missing = append([]string{path}, missing...)
	}
	return missing
}

// remove leaves folders in which the program has put something.
func (w *workplace) remove() {
	for _, path := range w.written {
		_ = os.RemoveAll(path)
	}
	for i := len(w.made) - 1; i >= 0; i-- {
		_ = os.Remove(w.made[i])
	}
}
