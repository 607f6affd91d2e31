package main

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// folder is the agent's private folder, the one that holds its executable. It
// lies directly under a folder of the file system's root, because others may be
// shared between sandboxes (contracts/iii-sandbox.md §6.1).
type folder string

func findHome() (folder, error) {
	path, err := os.Executable()
	if err != nil {
		path, err = filepath.Abs(os.Args[0])
	}
	return folder(filepath.Dir(path)), err
}

func (f folder) join(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}

// base is shared by all versions of the agent; packages are installed there.
func (f folder) base() string      { return filepath.Dir(string(f)) }
func (f folder) hosts() string     { return f.join("hosts") }
func (f folder) requests() string  { return f.join("requests") }
func (f folder) results() string   { return f.join("results") }
func (f folder) runs() string      { return f.join("runs") }
func (f folder) overlays() string  { return f.join("overlays") }
func (f folder) functions() string { return f.join("functions") }

func (f folder) function(digest string) string { return filepath.Join(f.functions(), digest) }

func (f folder) handler(digest string, language wire.Language) string {
	return filepath.Join(f.function(digest), "handler."+language.Extension())
}

// writeAtomically makes path appear whole or not at all.
func writeAtomically(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(content)
	if chmodErr := temporary.Chmod(mode); err == nil {
		err = chmodErr
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// freshName is unique among everything in the guest.
func freshName() string {
	var random [12]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
