package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const numpyVersion = "2.2.6"

// numpy is a folder with the package for the guests' interpreter, kept in the user's
// cache as what guest/sdk/build.sh builds.
var numpy = sync.OnceValues(func() (string, error) {
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		return "", err
	}
	version, err := exec.Command(interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "sandbox-operator", "python-numpy", strings.TrimSpace(string(version))+"-"+numpyVersion)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	return folder, installNumpy(interpreter, folder)
})

// installNumpy leaves the folder whole or not at all.
func installNumpy(interpreter, folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(folder), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	packages := filepath.Join(scratch, "packages")
	output, err := exec.Command(interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore",
		"--no-deps", "--only-binary=:all:", "--target", packages, "numpy=="+numpyVersion).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	if err := os.Rename(packages, folder); err != nil {
		if _, statErr := os.Stat(folder); statErr != nil {
			return err
		} // another run was quicker
	}
	return nil
}

// A fork of a process with numpy loaded draws numbers of its own. Its library of
// linear algebra is kept from starting threads, which would rule forks out.
func TestWarm_randomnessOfNumpy(t *testing.T) {
	folder, err := numpy()
	if err != nil {
		t.Fatalf("installing numpy: %v", err)
	}
	guest := newGuest(t)
	guest.env = append(guest.env, "PYTHONPATH="+folder, "OPENBLAS_NUM_THREADS=1")
	guest.way = ways[1]
	t.Cleanup(guest.endSupervisor)
	guest.exec(wire.CommandInit, wire.InitRequest{Warm: true})
	guest.awaitSupervisor()
	const source = `import numpy, numpy.random
early = numpy.random.random()
def handler(p): return [numpy.random.random(), float(numpy.random.default_rng().random()), int(numpy.random.randint(1 << 40))]
`
	guest.drawsAnew(t, source, 3)
}
