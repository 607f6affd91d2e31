package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandbox-operator/sandbox-operator/guest/sdk"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// The interpreter hosts, and what guest/sdk/build.sh makes: the Node SDK and the
// Node hosts as one file each. Without the former the agent works, and `iii` says
// that it could not be loaded; without the latter Node loads their sources.
//
//go:embed node/*.mjs python/*.py all:generated
var embedded embed.FS

const nodeSDKArchive = "generated/node-sdk.tar.gz"

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
	for language, folder := range map[string]string{"node": nodeHosts(), "python": "python"} {
		if err := copyEmbedded(folder, filepath.Join(staging, language)); err != nil {
			return err
		}
	}
	if err := writeAtomically(filepath.Join(staging, "python", "requirements.txt"), sdk.PythonRequirements, 0o644); err != nil {
		return err
	}
	if err := unpackSDK(filepath.Join(staging, "node_modules")); err != nil {
		return err
	}
	if err := os.Rename(staging, target); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func nodeHosts() string {
	const bundled = "generated/node"
	if entries, err := embedded.ReadDir(bundled); err == nil && len(entries) > 0 {
		return bundled
	}
	return "node"
}

func copyEmbedded(folder, target string) error {
	entries, err := embedded.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		content, err := embedded.ReadFile(folder + "/" + entry.Name())
		if err != nil {
			return err
		}
		if err := writeAtomically(filepath.Join(target, entry.Name()), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func unpackSDK(target string) error {
	packed, err := embedded.ReadFile(nodeSDKArchive)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(target, 0o755)
	}
	if err != nil {
		return err
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(target, header, archive); err != nil {
			return err
		}
	}
}

func unpackEntry(target string, header *tar.Header, content io.Reader) error {
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	if !filepath.IsLocal(header.Name) {
		return fmt.Errorf("archive entry %q leaves its folder", header.Name)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return writeAtomically(filepath.Join(target, header.Name), data, 0o644)
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
