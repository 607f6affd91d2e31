package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// checkFiles refuses a whole run before anything is written.
func checkFiles(files []wire.File) error {
	if len(files) > wire.MaxFiles {
		return fmt.Errorf("files: %d are too many, %d are allowed", len(files), wire.MaxFiles)
	}
	total, seen := 0, map[string]bool{}
	for _, file := range files {
		if err := checkFile(file); err != nil {
			return fmt.Errorf("file %q: %w", file.Path, err)
		}
		path := filepath.Clean(file.Path)
		if seen[path] {
			return fmt.Errorf("file %q is given twice", file.Path)
		}
		seen[path] = true
		total += len(file.Content)
	}
	if total > wire.MaxFileBytes {
		return fmt.Errorf("files: %d bytes are too many, %d are allowed together", total, wire.MaxFileBytes)
	}
	return nil
}

func checkFile(file wire.File) error {
	switch {
	case file.Path == "":
		return errors.New("the path is empty")
	case strings.ContainsRune(file.Path, 0):
		return errors.New("the path holds a NUL character")
	case strings.HasSuffix(file.Path, "/") || filepath.Base(file.Path) == "." || filepath.Base(file.Path) == "..":
		return errors.New("the path names a folder")
	case !filepath.IsAbs(file.Path) && !filepath.IsLocal(file.Path):
		return errors.New("the path leaves the program's folder")
	}
	_, err := fileMode(file.Mode)
	return err
}

// fileMode reads octal permission bits; set-user-id bits and the like are none.
func fileMode(text string) (os.FileMode, error) {
	if text == "" {
		return 0o644, nil
	}
	bits, err := strconv.ParseUint(text, 8, 16)
	if err != nil || bits > 0o777 {
		return 0, fmt.Errorf("mode %q is not octal permission bits, such as 0644", text)
	}
	return os.FileMode(bits), nil
}
