package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// probeWait bounds an interpreter's answer on a machine that is busy.
const probeWait = 30 * time.Second

// pythonProbe says which version this is, and which SDK really loads in it.
const pythonProbe = `
import json, os, platform, sys
sys.path.extend(os.environ.pop("SANDBOX_PYTHON_PACKAGES", "").split(os.pathsep))
sdk = ""
try:
    import iii
    from importlib.metadata import version
    sdk = version("iii-sdk")
except Exception:
    pass
print(json.dumps({"version": platform.python_version(), "sdk": sdk}))
`

// initialize prepares the private folder; doing it again changes nothing.
func initialize(home folder, request wire.InitRequest) wire.Reply {
	report := &wire.Init{}
	home, err := moveInto(home, request.Home)
	if err != nil {
		return failed(wire.Failf(wire.Internal, "moving into the private folder: %v", err))
	}
	if request.SharedImage {
		err := overlaySharedFolders(home.overlays(), sharedFolders)
		report.Overlay = err == nil
		if err != nil {
			report.OverlayError = err.Error()
		}
		dropSysAdmin()
	}
	digest := inBackground(func() (string, error) { return digestOfFile(home.join(agentName)) })
	if err := unpackHosts(home); err != nil {
		return failed(wire.Failf(wire.Internal, "unpacking: %v", err))
	}
	if request.ModuleFolder != "" {
		linkSDK(home, request.ModuleFolder)
	}
	if report.AgentDigest, err = digest(); err != nil {
		return failed(wire.Failf(wire.Internal, "reading the agent: %v", err))
	}
	report.SDK.Node = nodeSDKVersion(home)
	if request.Probe {
		probeInterpreters(home, report)
	}
	if request.Warm {
		startSupervisor(home)
	}
	return wire.Reply{Init: report}
}

func version(home folder, _ struct{}) wire.Reply {
	digest, err := digestOfFile(home.join(agentName))
	if err != nil {
		return failed(wire.Failf(wire.Internal, "reading the agent: %v", err))
	}
	return wire.Reply{Init: &wire.Init{AgentDigest: digest}}
}

// inBackground begins at once, and returns what waits for the outcome.
func inBackground[T any](do func() (T, error)) func() (T, error) {
	var (
		result T
		err    error
		work   sync.WaitGroup
	)
	work.Go(func() { result, err = do() })
	return func() (T, error) {
		work.Wait()
		return result, err
	}
}

func digestOfFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hex.EncodeToString(hash.Sum(nil)), err
}

// linkSDK makes the SDK importable for programs outside the private folder. A
// guest that has its own keeps it, and one that cannot be written to goes without.
func linkSDK(home folder, moduleFolder string) {
	if os.MkdirAll(moduleFolder, 0o755) == nil {
		_ = os.Symlink(filepath.Join(home.hosts(), "node_modules", "iii-sdk"), filepath.Join(moduleFolder, "iii-sdk"))
	}
}

func probeInterpreters(home folder, report *wire.Init) {
	var probes sync.WaitGroup
	probes.Go(func() {
		output := probe(home, wire.Node, "--version")
		report.NodeVersion = strings.TrimPrefix(strings.TrimSpace(string(output)), "v")
	})
	probes.Go(func() {
		var found struct{ Version, SDK string }
		_ = json.Unmarshal(probe(home, wire.Python, "-c", pythonProbe), &found)
		report.PythonVersion, report.SDK.Python = found.Version, found.SDK
	})
	probes.Wait()
}

// probe returns what an interpreter prints; nothing if it is not there.
func probe(home folder, language wire.Language, args ...string) []byte {
	interpreter, failure := findInterpreter(language)
	if failure != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	command := exec.CommandContext(ctx, interpreter, args...)
	command.Env = environment(home, wire.Bus{}, nil)
	command.Dir = string(home)
	output, err := command.Output()
	if err != nil {
		return nil
	}
	return output
}
