package qemu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fingerprint names content by what it depends on.
type fingerprint struct{ hash hash.Hash }

func newFingerprint(parts ...any) fingerprint {
	f := fingerprint{hash: sha256.New()}
	for _, part := range parts {
		f.add(part)
	}
	return f
}

func (f fingerprint) add(part any) { _, _ = fmt.Fprintf(f.hash, "%#v\n", part) }

func (f fingerprint) String() string { return hex.EncodeToString(f.hash.Sum(nil))[:32] }

// addFile takes a file for changed when its place, size or times have. Reading all
// that an image is made of would take as long as making it.
func (f fingerprint) addFile(path string) error {
	var status unix.Stat_t
	if err := unix.Lstat(path, &status); err != nil {
		return fmt.Errorf("looking at %s: %w", path, err)
	}
	_, _ = fmt.Fprintf(f.hash, "%s %o %d %d %d %d\n", path, status.Mode, status.Uid, status.Gid, status.Size, status.Mtim.Nano())
	return nil
}

// readable says whether everybody may read a file or enter a folder. What is not so
// is in no image: guests of package namespaces do not see it either.
func readable(info fs.FileInfo) bool {
	if info.IsDir() {
		return info.Mode().Perm()&0o005 == 0o005
	}
	return info.Mode()&fs.ModeSymlink != 0 || info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}

// walkReadable visits what everybody may read below a folder, its root included.
// Paths are relative to it.
func walkReadable(root string, visit func(path string, info fs.FileInfo, skipped bool) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if os.IsNotExist(err) {
			return nil // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		skipped := !readable(info)
		if err := visit(relative, info, skipped); err != nil {
			return err
		}
		if skipped && entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}
