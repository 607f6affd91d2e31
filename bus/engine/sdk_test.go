package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// sdkChecks are the checks that testdata/sdk/client.mjs must report, in order.
var sdkChecks = []string{
	"own function before metadata", "functions listed", "call with metadata", "no value", "large payload", "void",
	"handler error", "error code of another worker", "unknown function", "channel", "publish", "http returned",
	"http streamed", "workers listed", "function described", "custom trigger type", "unregistered function",
}

// TestEngine_nodeSDK drives the engine with the published npm client.
func TestEngine_nodeSDK(t *testing.T) {
	e := startEngine(t, withHTTP)
	worker := connect(t, e, "go-worker")
	worker.register("go::fail")
	worker.serve("go::fail", func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		return nil, &protocol.ErrorBody{Code: "S211", Message: "no such sandbox"}
	})

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := filepath.Join(sdkFolder(t), "client.mjs")
	node := exec.CommandContext(ctx, "node", script, e.URL("workers"), e.HTTPURL())
	output, err := node.CombinedOutput()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, output)
	}
	var held []string
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "ok "); ok {
			held = append(held, name)
		}
	}
	if diff := cmp.Diff(sdkChecks, held); diff != "" {
		t.Errorf("checks (-want +got):\n%s\noutput:\n%s", diff, output)
	}
	eventually(t, "the Node workers to be gone", func() bool { return len(worker.workerNames()) == 1 })
}

// sdkFolder holds the script beside the installed packages of its lockfile.
func sdkFolder(t *testing.T) string {
	t.Helper()
	modules := installedModules(t)
	folder := t.TempDir()
	script, err := os.ReadFile("testdata/sdk/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "client.mjs"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return folder
}

// installedModules installs the locked packages once for each lockfile, into
// the user's cache.
func installedModules(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile("testdata/sdk/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	root := filepath.Join(cache, "sandbox-operator", "npm")
	target := filepath.Join(root, hex.EncodeToString(sum[:]))
	modules := filepath.Join(target, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	install(t, root, target, lock)
	return modules
}

// install works beside the target and renames, so that a cut installation or a
// test running at the same time leaves nothing half-done.
func install(t *testing.T, root, target string, lock []byte) {
	t.Helper()
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(root, "install-") //nolint:usetesting // It is renamed, so it must be on the file system of the target.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	manifest, err := os.ReadFile("testdata/sdk/package.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(work, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = work
	if output, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, output)
	}
	if err := os.Rename(work, target); err != nil {
		if _, present := os.Stat(filepath.Join(target, "node_modules")); present != nil {
			t.Fatal(err)
		}
	}
}
