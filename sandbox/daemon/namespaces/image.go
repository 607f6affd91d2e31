package namespaces

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// RootPlan says what of the host a guest sees, always read-only.
type RootPlan struct {
	// Links are the links at the top of the root, such as bin to usr/bin.
	Links map[string]string
	// UsrDirs are folders below /usr in which a guest may make files.
	UsrDirs []string
	// Trees are bound at the same path: an interpreter's installation that lies
	// outside /usr, libraries of hosts without a merged /usr, and the few public
	// parts of /etc.
	Trees []string
	// BinDirs come first on the guest's PATH.
	BinDirs []string
}

// presets maps the names of the daemon's catalog to the program that makes the
// preset (contracts/iii-sandbox.md §3.7).
var presets = map[string]string{"node": "node", "python": "python3"}

// publicEtc are the parts of the host's /etc that guests need and that hold no
// secrets: certificates, the linker's cache and the links of alternatives.
var publicEtc = []string{"/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/alternatives", "/etc/ld.so.cache"}

// PlanRoot looks at the host once. Presets whose interpreter is missing are left
// out of the returned set.
func PlanRoot(ctx context.Context) (RootPlan, map[string]bool) {
	plan := RootPlan{Links: map[string]string{}, UsrDirs: writableUsrDirs()}
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if target, err := os.Readlink("/" + name); err == nil {
			plan.Links[name] = strings.TrimPrefix(target, "/")
		} else if isDir("/" + name) {
			plan.Trees = append(plan.Trees, "/"+name)
		}
	}
	for _, path := range publicEtc {
		if _, err := os.Stat(path); err == nil {
			plan.Trees = append(plan.Trees, path)
		}
	}
	available := map[string]bool{}
	for preset, program := range presets {
		available[preset] = plan.addInterpreter(ctx, program)
	}
	return plan, available
}

// addInterpreter makes program run in guests: one below /usr is there already,
// another's installation is bound.
func (p *RootPlan) addInterpreter(ctx context.Context, program string) bool {
	for _, directory := range []string{"/usr/bin", "/usr/local/bin"} {
		if resolved, err := filepath.EvalSymlinks(filepath.Join(directory, program)); err == nil && below(resolved, "/usr") {
			return true
		}
	}
	prefix := interpreterPrefix(ctx, program)
	if prefix == "" || prefix == "/" {
		return false
	}
	p.addPrefix(prefix)
	return true
}

func (p *RootPlan) addPrefix(prefix string) {
	p.Trees = append(p.Trees, prefix)
	p.BinDirs = append(p.BinDirs, filepath.Join(prefix, "bin"))
}

// interpreterPrefix asks the interpreter itself, because what is on PATH may be
// the shim of a version manager.
func interpreterPrefix(ctx context.Context, program string) string {
	ask := map[string][]string{
		"node":    {"-p", "require('path').dirname(require('path').dirname(process.execPath))"},
		"python3": {"-I", "-c", "import sys; print(sys.base_prefix)"},
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, path, ask[program]...).Output()
	if err != nil {
		return ""
	}
	prefix := string(bytes.TrimSpace(output))
	if _, err := os.Stat(filepath.Join(prefix, "bin", program)); err != nil {
		return ""
	}
	return prefix
}

// path is the guest's default PATH.
func (p RootPlan) path() string {
	return strings.Join(append(append([]string{}, p.BinDirs...),
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"), ":")
}

const maxUsrDirs = 512

// packageDirs are what nearly every package of a distribution puts files into.
func packageDirs() []string {
	dirs := []string{
		"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib/node_modules", "/usr/lib/python3", "/usr/lib/python3/dist-packages",
		"/usr/share", "/usr/share/doc", "/usr/share/man", "/usr/share/lintian", "/usr/share/lintian/overrides", "/usr/include", "/usr/etc",
	}
	for section := 1; section <= 8; section++ {
		dirs = append(dirs, fmt.Sprintf("/usr/share/man/man%d", section))
	}
	multiarch, _ := filepath.Glob("/usr/lib/*-linux-gnu*")
	return append(dirs, multiarch...)
}

// writableUsrDirs are the folders that package managers install into. Each gets
// a twin in the guest's own layer, owned by the guest's root; of the host's
// folders it is not the owner.
func writableUsrDirs() []string {
	dirs := []string{}
	for _, path := range packageDirs() {
		if isDir(path) {
			dirs = append(dirs, path)
		}
	}
	_ = filepath.WalkDir("/usr/local", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || len(dirs) >= maxUsrDirs {
			return fs.SkipDir
		}
		dirs = append(dirs, path)
		if strings.Count(path, "/") >= 6 || entry.Name() == "node_modules" || strings.HasSuffix(entry.Name(), "-packages") {
			return fs.SkipDir
		}
		return nil
	})
	return dirs
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

func below(path, directory string) bool {
	return strings.HasPrefix(path, directory+"/")
}

// CheckImage refuses what has no files here: this back end makes the presets out
// of the host's interpreters and pulls nothing.
func (b *Backend) CheckImage(name string) error { return CheckPreset(name, b.available) }

// CheckPreset returns an error that wraps daemon.ErrNoImage for an image that is
// no preset or whose interpreter is not among the available of PlanRoot.
func CheckPreset(name string, available map[string]bool) error {
	program, known := presets[name]
	if !known {
		return fmt.Errorf("image %q is not one of node, python: %w", name, daemon.ErrNoImage)
	}
	if !available[name] {
		return fmt.Errorf("image %q needs %s on the host, which is not installed: %w", name, program, daemon.ErrNoImage)
	}
	return nil
}
