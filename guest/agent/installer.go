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
	nodePackagesPrefix   = "node-packages-"
	pythonPackagesPrefix = "python-packages-"
)

// command is the installer's command line. Requirements have been checked, and
// "--" keeps npm from taking one for an option all the same. The installer works
// in an empty folder, so that no requirement can be the name of a file in it.
func (l packageList) command(staging string) ([]string, *wire.Failure) {
	for _, name := range []string{"work", "packages"} {
		if err := os.Mkdir(filepath.Join(staging, name), 0o755); err != nil {
			return nil, wire.Failf(wire.Internal, "making a folder for the packages: %v", err)
		}
	}
	interpreter, failure := findInterpreter(l.request.Language)
	if failure != nil {
		return nil, failure
	}
	packages := filepath.Join(staging, "packages")
	if l.request.Language == wire.Python {
		return append([]string{interpreter, "-m", "pip", "install", "--target", packages}, l.request.Packages...), nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return nil, wire.Failf(wire.InterpreterMissing, "this runtime has no npm")
	}
	return append([]string{npm, "install", "--prefix", packages, "--"}, l.request.Packages...), nil
}

// environment keeps the installers quiet, and their caches, which would take the
// guest's memory, in a folder that goes. What the request says comes last.
func (l packageList) environment(staging string) map[string]string {
	work := filepath.Join(staging, "work")
	settings := map[string]string{
		"npm_config_audit": "false", "npm_config_fund": "false", "npm_config_update_notifier": "false",
		"npm_config_progress": "false", "npm_config_cache": filepath.Join(work, "npm"),
		"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_NO_CACHE_DIR": "1",
		"PIP_ROOT_USER_ACTION": "ignore", "PIP_PROGRESS_BAR": "off",
		"TMPDIR": work,
	}
	maps.Copy(settings, l.request.Env)
	return settings
}

// installedPythonPackages lists the folders of installed lists, the latest first.
func installedPythonPackages(home folder) []string {
	folders, _ := filepath.Glob(filepath.Join(home.base(), pythonPackagesPrefix+"*"))
	age := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return -info.ModTime().UnixNano()
	}
	slices.SortStableFunc(folders, func(a, b string) int {
		if order := age(a) - age(b); order != 0 {
			return int(max(-1, min(1, order)))
		}
		return strings.Compare(a, b)
	})
	return folders
}
