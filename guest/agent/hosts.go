package main

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sandbox-operator/sandbox-operator/guest/sdk"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// The interpreter hosts, and what guest/sdk/build.sh makes: the package of the Node
// SDK, and the Node hosts as one file each. Without the former the agent works, and
// `iii` says that it could not be loaded; without the latter Node loads their sources.
//
//go:embed node/*.mjs python/*.py all:generated
var embedded embed.FS

// Of the SDK, only the bundle is large. It stays compressed in the guest too, because
// every instance would wait until it is unpacked, and few processes load it.
const nodeSDK = "generated/iii-sdk"

// ensureHosts unpacks the hosts unless that has been done. It is cheap when it
// has: a call needs only the one stat.
func ensureHosts(home folder) *wire.Failure {
	if _, err := os.Stat(home.hosts()); err == nil {
		return nil
	}
	if err := unpackHosts(home); err != nil {
		return wire.Failf(wire.Internal, "unpacking: %v", err)
	}
	return nil
}

// unpackHosts puts the hosts into a folder named by their digest and then
// switches the link that everybody uses, so that agents starting at the same
// time see all or nothing.
func unpackHosts(home folder) error {
	digest, err := embeddedDigest()
	if err != nil {
		return err
	}
	target := home.join("hosts-" + digest[:12])
	if err := unpackInto(home, target); err != nil {
		return err
	}
	if err := switchLink(home.hosts(), filepath.Base(target)); err != nil {
		return err
	}
	if _, err := os.Lstat(home.join("node_modules")); errors.Is(err, fs.ErrNotExist) {
		return switchLink(home.join("node_modules"), filepath.Join("hosts", "node_modules"))
	}
	return nil
}

func unpackInto(home folder, target string) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	staging, err := os.MkdirTemp(string(home), ".hosts-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	if err := os.Chmod(staging, 0o755); err != nil {
		return err
	}
	if err := fill(staging); err != nil {
		return err
	}
	if err := os.Rename(staging, target); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// fill unpacks into a folder that nobody else knows yet. All may read what is in it.
func fill(staging string) error {
	defer syscall.Umask(syscall.Umask(0o022))
	for name, source := range map[string]string{"node": nodeHosts(), "python": "python", "node_modules/iii-sdk": nodeSDK} {
		if err := copyEmbedded(source, filepath.Join(staging, name)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(staging, "python", "requirements.txt"), sdk.PythonRequirements, 0o644)
}

func nodeHosts() string {
	const bundled = "generated/node"
	if entries, err := embedded.ReadDir(bundled); err == nil && len(entries) > 0 {
		return bundled
	}
	return "node"
}

// copyEmbedded copies a folder with all it holds, unless this build has none.
func copyEmbedded(source, target string) error {
	entries, err := embedded.ReadDir(source)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(filepath.Dir(target), 0o755)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for _, entry := range entries {
		from, to := source+"/"+entry.Name(), filepath.Join(target, entry.Name())
		if entry.IsDir() {
			err = copyEmbedded(from, to)
		} else {
			err = copyEmbeddedFile(from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyEmbeddedFile(source, target string) error {
	content, err := embedded.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, content, 0o644)
}

func switchLink(link, target string) error {
	if current, err := os.Readlink(link); err == nil && current == target {
		return nil
	}
	temporary := link + "-" + freshName()
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	defer os.Remove(temporary)
	return os.Rename(temporary, link)
}

func embeddedDigest() (string, error) {
	hash := sha256.New()
	hash.Write(sdk.PythonRequirements)
	err := fs.WalkDir(embedded, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(path)
		fmt.Fprintf(hash, "%s %d\n", path, len(content))
		hash.Write(content)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// nodeSDKVersion is the unpacked SDK's version, or empty.
func nodeSDKVersion(home folder) string {
	var manifest struct {
		Version string `json:"version"`
	}
	content, err := os.ReadFile(filepath.Join(home.hosts(), "node_modules", "iii-sdk", "package.json"))
	if err != nil || json.Unmarshal(content, &manifest) != nil {
		return ""
	}
	return manifest.Version
}
