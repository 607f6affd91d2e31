package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// packagesVariable lists folders of Python packages, the SDK among them,
	// that are searched after the interpreter's own. Hosts take it out of the
	// environment again.
	packagesVariable = "SANDBOX_PYTHON_PACKAGES"
	packagesFolder   = "python-packages"
)

// findInterpreter returns the absolute path of a language's interpreter.
func findInterpreter(language wire.Language) (string, *wire.Failure) {
	names := map[wire.Language]string{wire.Node: "node", wire.Python: "python3"}
	name, known := names[language]
	if !known {
		return "", wire.Failf(wire.BadRequest, "language must be %q or %q", wire.Node, wire.Python)
	}
	if os.Getenv("PATH") == "" {
		_ = os.Setenv("PATH", defaultPath)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", wire.Failf(wire.InterpreterMissing, "this runtime has no %s", name)
	}
	return path, nil
}

// Handler hosts: one that is started for a call, and one that waits for calls.
const (
	hostCall  = "call"
	hostServe = "serve"
)

// hostCommand is the command line of a handler host.
func hostCommand(home folder, interpreter string, language wire.Language, name string) []string {
	if language == wire.Node {
		return []string{interpreter, filepath.Join(home.hosts(), "node", name+".mjs")}
	}
	return []string{interpreter, pythonStart(home), name}
}

func pythonStart(home folder) string { return filepath.Join(home.hosts(), "python", "start.py") }

// programCommand is the command line that runs a whole program. Node starts the
// program itself, after the preload; Python's host makes it the main module.
func programCommand(home folder, interpreter string, language wire.Language, program string, args []string) []string {
	command := []string{interpreter, pythonStart(home), "run", program}
	if language == wire.Node {
		command = []string{interpreter, "--import", fileURL(filepath.Join(home.hosts(), "node", "run.mjs")), program}
	}
	return append(command, args...)
}

// urlEscapes are what a path may hold that means something else in a URL. The
// package net/url would cost each start of the agent half a millisecond.
var urlEscapes = strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23", "\\", "%5C")

func fileURL(path string) string { return "file://" + urlEscapes.Replace(path) }

// telemetrySwitch is the variable by which SDKs export telemetry.
const telemetrySwitch = "OTEL_ENABLED"

// environment is the guest's own, with the request's on top. Telemetry is off
// unless one of the two says otherwise, because exporters print and delay the exit
// (contracts/code-runner.md §14).
func environment(home folder, bus wire.Bus, extra map[string]string) []string {
	added := map[string]string{}
	if _, chosen := os.LookupEnv(telemetrySwitch); !chosen {
		added[telemetrySwitch] = "false"
	}
	maps.Copy(added, extra)
	if bus.BusURL != "" {
		added["III_URL"] = bus.BusURL
	}
	if bus.WorkerName != "" {
		added["III_WORKER_NAME"] = bus.WorkerName
	}
	added[packagesVariable] = pythonPackages(home, added[packagesVariable])
	result := os.Environ()
	for _, name := range slices.Sorted(maps.Keys(added)) {
		result = append(result, name+"="+added[name])
	}
	return result
}

func pythonPackages(home folder, requested string) string {
	folders := append([]string{requested}, installedPythonPackages(home)...)
	folders = append(folders, os.Getenv(packagesVariable),
		home.join(packagesFolder), filepath.Join(home.base(), packagesFolder))
	folders = slices.DeleteFunc(folders, func(path string) bool { return path == "" })
	return strings.Join(folders, string(os.PathListSeparator))
}
