package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// install puts a list of packages into a folder of its own, named by the list's
// digest, which appears whole or not at all. So lists never disturb each other,
// a second installation of one costs nothing, and two at a time are no danger.
func install(home folder, request wire.InstallRequest) wire.Reply {
	if failure := checkInstall(request); failure != nil {
		return failed(failure)
	}
	list := newPackageList(home, request)
	if list.installed() {
		return list.publish(wire.Reply{Run: &wire.Run{}})
	}
	held, failure := claimToken(home, request.Token)
	if failure != nil {
		return neverStarted(failure)
	}
	defer held.release()
	return list.install(held)
}

func checkInstall(request wire.InstallRequest) *wire.Failure {
	switch {
	case request.Language.Extension() == "":
		return wire.Failf(wire.BadRequest, "language must be %q or %q", wire.Node, wire.Python)
	case len(request.Packages) == 0:
		return wire.Failf(wire.BadRequest, "packages is empty")
	case len(request.Packages) > wire.MaxPackages:
		return wire.Failf(wire.BadRequest, "packages: %d are too many, %d are allowed", len(request.Packages), wire.MaxPackages)
	case request.TimeoutMs <= 0:
		return wire.Failf(wire.BadRequest, "timeoutMs must be at least 1")
	case request.ModuleFolder != "" && !filepath.IsAbs(request.ModuleFolder):
		return wire.Failf(wire.BadRequest, "moduleFolder must be absolute")
	}
	for _, requirement := range request.Packages {
		if err := wire.CheckRequirement(request.Language, requirement); err != nil {
			return wire.Failf(wire.BadRequest, "packages: %v", err)
		}
	}
	return nil
}

// packageList is one request's packages in one language.
type packageList struct {
	home    folder
	request wire.InstallRequest
	target  string
}

func newPackageList(home folder, request wire.InstallRequest) packageList {
	sorted := slices.Compact(slices.Sorted(slices.Values(request.Packages)))
	digest := sha256.Sum256([]byte(strings.Join(sorted, "\n")))
	prefix := map[wire.Language]string{wire.Node: nodePackagesPrefix, wire.Python: pythonPackagesPrefix}[request.Language]
	request.Packages = sorted
	return packageList{home: home, request: request, target: filepath.Join(home.base(), prefix+hex.EncodeToString(digest[:6]))}
}

func (l packageList) installed() bool {
	_, err := os.Stat(l.target)
	return err == nil
}

func (l packageList) install(held *claim) wire.Reply {
	staging, err := os.MkdirTemp(l.home.base(), ".packages-*")
	if err != nil {
		return failed(wire.Failf(wire.Internal, "making a folder for the packages: %v", err))
	}
	defer os.RemoveAll(staging)
	command, failure := l.command(staging)
	if failure != nil {
		return failed(failure)
	}
	done, failure := job{
		program:     program{command: command, dir: filepath.Join(staging, "work"), env: environment(l.home, wire.Bus{}, l.environment(staging))},
		timeout:     time.Duration(l.request.TimeoutMs) * time.Millisecond,
		stdoutLimit: upkeepOutput, stderrLimit: upkeepOutput, claim: held,
	}.do()
	if failure != nil {
		return failed(failure)
	}
	reply := wire.Reply{Run: done.run, DurationMs: done.duration.Milliseconds()}
	if done.run.ExitCode != 0 {
		return reply
	}
	if err := l.move(filepath.Join(staging, "packages")); err != nil {
		return failed(wire.Failf(wire.Internal, "storing the packages: %v", err))
	}
	return l.publish(reply)
}

// move: another agent may have been quicker; its packages are the same.
func (l packageList) move(from string) error {
	err := os.Rename(from, l.target)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// publish makes this list the one whose packages are found first. Python's are
// found by their folder's name, the youngest folder first.
func (l packageList) publish(reply wire.Reply) wire.Reply {
	defer tellSupervisor(l.home, askRenew, nil)
	if l.request.Language == wire.Python {
		now := time.Now()
		_ = os.Chtimes(l.target, now, now)
		return reply
	}
	folders := []string{filepath.Join(l.home.base(), "node_modules")}
	if l.request.ModuleFolder != "" {
		folders = append(folders, l.request.ModuleFolder)
	}
	for _, modules := range folders {
		for _, requirement := range l.request.Packages {
			if err := l.link(modules, packageName(requirement)); err != nil {
				return failed(wire.Failf(wire.Internal, "linking the packages: %v", err))
			}
		}
	}
	return reply
}

// link leaves a real folder of that name alone: the guest has its own.
func (l packageList) link(modules, name string) error {
	link := filepath.Join(modules, filepath.FromSlash(name))
	if info, err := os.Lstat(link); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	return switchLink(link, filepath.Join(l.target, "node_modules", filepath.FromSlash(name)))
}

// packageName cuts the range off an npm requirement; a scope's @ comes first.
func packageName(requirement string) string {
	if at := strings.LastIndexByte(requirement, '@'); at > 0 {
		return requirement[:at]
	}
	return requirement
}
