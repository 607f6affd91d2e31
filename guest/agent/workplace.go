package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// workplace is where a program lies, and what to take away afterwards.
type workplace struct {
	folder  string
	program string
	written []string
}

func newWorkplace(home folder, request wire.RunRequest) (workplace, error) {
	place := workplace{folder: request.Folder}
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
		path, err := place.write(file)
		if err != nil {
			return place, fmt.Errorf("file %q: %w", file.Path, err)
		}
		if !request.KeepFiles {
			place.written = append(place.written, path)
		}
	}
	return place, nil
}

func (w workplace) write(file wire.File) (string, error) {
	path := file.Path
	if !filepath.IsAbs(path) {
		if !filepath.IsLocal(path) {
			return "", errors.New("path leaves the program's folder")
		}
		path = filepath.Join(w.folder, path)
	}
	mode := os.FileMode(0o644)
	if file.Mode != "" {
		bits, err := strconv.ParseUint(file.Mode, 8, 12)
		if err != nil {
			return "", errors.New("mode must be octal permission bits")
		}
		mode = os.FileMode(bits)
	}
	return path, writeAtomically(path, file.Content, mode)
}

func (w workplace) remove() {
	for _, path := range w.written {
		_ = os.RemoveAll(path)
	}
}
