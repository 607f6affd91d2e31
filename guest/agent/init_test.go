package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestInit_reportsWhatIsThere(t *testing.T) {
	guest := newGuest(t)
	reply := guest.exec(wire.CommandInit, wire.InitRequest{Probe: true})
	if reply.Error != nil {
		t.Fatal(reply.Error)
	}
	content, err := os.ReadFile(agentPath)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Init.AgentDigest != digestOf(string(content)) {
		t.Error("wrong agent digest")
	}
	node, _ := exec.Command("node", "--version").Output()
	python, _ := exec.Command("python3", "--version").Output()
	if "v"+reply.Init.NodeVersion+"\n" != string(node) || "Python "+reply.Init.PythonVersion+"\n" != string(python) {
		t.Errorf("versions: %+v", reply.Init)
	}
	if reply.Init.Overlay || reply.Init.OverlayError != "" {
		t.Errorf("overlays without asking: %+v", reply.Init)
	}
	if again := guest.exec(wire.CommandVersion, struct{}{}); again.Init == nil || again.Init.AgentDigest != reply.Init.AgentDigest {
		t.Errorf("version: %+v", again)
	}
}

func TestInit_withoutInterpreters(t *testing.T) {
	guest := newGuest(t)
	guest.env = []string{"PATH=/nonexistent"}
	reply := guest.exec(wire.CommandInit, wire.InitRequest{Probe: true})
	if reply.Error != nil || reply.Init.NodeVersion != "" || reply.Init.PythonVersion != "" {
		t.Errorf("got %+v, %v", reply.Init, reply.Error)
	}
	for _, language := range []wire.Language{wire.Node, wire.Python} {
		reply := guest.plant(language, "x")
		if reply.Error == nil || reply.Error.Kind != wire.InterpreterMissing {
			t.Errorf("%s: got %+v", language, reply.Error)
		}
	}
}

// Agents that start at the same time unpack once, wholly, and leave no scraps.
func TestInit_concurrentAndIdempotent(t *testing.T) {
	guest := newGuest(t)
	var starts sync.WaitGroup
	for range 8 {
		starts.Go(func() {
			if reply, err := guest.execRaw([]byte("{}"), wire.CommandInit); err != nil || reply.Error != nil {
				t.Errorf("%v %v", err, reply.Error)
			}
		})
	}
	starts.Wait()
	before := tree(t, guest.home)
	guest.exec(wire.CommandInit, wire.InitRequest{})
	if after := tree(t, guest.home); after != before {
		t.Errorf("a second init changed the folder:\n%s\n%s", before, after)
	}
	if strings.Contains(before, "/.") {
		t.Errorf("scraps are left:\n%s", before)
	}
}

func tree(t *testing.T, root string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || strings.Contains(path, "__pycache__") {
			return err
		}
		info, err := entry.Info()
		if err == nil && !entry.IsDir() {
			lines = append(lines, strings.TrimPrefix(path, root)+" "+info.ModTime().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// A call works although nobody ran init, as after a sandbox was adopted.
func TestInit_isNotRequired(t *testing.T) {
	guest := newGuest(t)
	if reply := guest.run(wire.Python, "result = 1\n"); string(reply.Result) != "1" {
		t.Errorf("got %s", reply.Result)
	}
}

func TestInit_linksTheSDK(t *testing.T) {
	guest := newGuest(t)
	outside := t.TempDir()
	modules := filepath.Join(outside, "node_modules")
	for range 2 {
		guest.exec(wire.CommandInit, wire.InitRequest{ModuleFolder: modules})
	}
	reply := guest.run(wire.Node, `import { registerWorker } from 'iii-sdk'; export default typeof registerWorker;`,
		func(r *wire.RunRequest) { r.Folder = filepath.Join(outside, "deep", "er") })
	if string(reply.Result) != `"function"` {
		t.Errorf("got %s: %s", reply.Result, reply.Run.Stderr)
	}
}

// K14, K15: the bundle is the real one, and no host file shadows the SDK.
func TestHosts_files(t *testing.T) {
	guest := newGuest(t)
	guest.exec(wire.CommandInit, wire.InitRequest{})
	manifest, err := os.ReadFile(filepath.Join(guest.home, "node_modules", "iii-sdk", "package.json"))
	if err != nil {
		t.Fatalf("the SDK is not embedded, run guest/build.sh: %v", err)
	}
	var found struct {
		Name, Version, Main string
		Exports             map[string]any
	}
	if err := json.Unmarshal(manifest, &found); err != nil || found.Name != "iii-sdk" || found.Version != "0.22.1" || found.Exports["."] == nil {
		t.Errorf("manifest: %+v %v", found, err)
	}
	bundle := unzipped(t, filepath.Join(guest.home, "node_modules", "iii-sdk", "dist", "bundle.cjs.gz"))
	// It is read as Latin-1, which leaves nothing else as it is.
	if len(bundle) < 1_000_000 || bytes.ContainsFunc(bundle, func(r rune) bool { return r > unicode.MaxASCII }) {
		t.Errorf("the bundle has %d bytes, or is not ASCII", len(bundle))
	}
	if _, err := os.Stat(filepath.Join(guest.home, "hosts", "python", "iii.py")); !os.IsNotExist(err) {
		t.Error("a host file shadows the SDK's package")
	}
}

func unzipped(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Programs may run as another user than the agent.
func TestHosts_readableForAll(t *testing.T) {
	guest := newGuest(t)
	before := syscall.Umask(0o077)
	reply, err := guest.execRaw([]byte("{}"), wire.CommandInit)
	syscall.Umask(before)
	if err != nil || reply.Error != nil {
		t.Fatalf("%v %v", err, reply.Error)
	}
	files := 0
	root, err := filepath.EvalSymlinks(filepath.Join(guest.home, "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files++
		want := fs.FileMode(0o644)
		if entry.IsDir() {
			want = 0o755
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", strings.TrimPrefix(path, root), info.Mode())
		}
		return nil
	})
	if err != nil || files < 30 {
		t.Errorf("%d files, %v", files, err)
	}
}

// Descriptors that whoever starts the agent left open stop at the agent.
func TestAgent_inheritedDescriptorsEndHere(t *testing.T) {
	guest := newGuest(t)
	leaked, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer leaked.Close()
	body, _ := wire.Marshal(wire.RunRequest{Language: wire.Python, TimeoutMs: testTimeout.Milliseconds(),
		Source: "import os\nresult = sorted(int(fd) for fd in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + fd))\n"})
	command := exec.Command(filepath.Join(guest.home, "agent"), "run")
	command.Env, command.Stdin = guest.env, strings.NewReader(string(body))
	command.ExtraFiles = []*os.File{leaked, leaked, leaked, leaked}
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := wire.DecodeReply(output)
	if err != nil || string(reply.Result) != "[0,1,2,4]" {
		t.Errorf("want the three streams and the result's descriptor, got %s %v", reply.Result, err)
	}
}
