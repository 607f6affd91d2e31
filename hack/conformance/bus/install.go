package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sandbox-operator/sandbox-operator/hack/conformance/clients"
)

// installPython returns a folder with the pinned packages of one version of the
// SDK, made for the present interpreter.
func installPython(ctx context.Context, progress io.Writer, version string) (string, error) {
	name := "requirements-" + version + ".txt"
	requirements, err := files.ReadFile("python/" + name)
	if err != nil {
		return "", err
	}
	tag, err := exec.CommandContext(ctx, python(), "-c", "import sysconfig; print(sysconfig.get_config_var('SOABI'))").Output()
	if err != nil {
		return "", fmt.Errorf("asking Python for its version: %w", err)
	}
	key := clients.Digest(append(tag, requirements...))
	return clients.Install(ctx, progress, "python-conformance", key, "iii-sdk "+version+" with pip", func(ctx context.Context, dir string) error {
		list := filepath.Join(dir, name)
		if err := os.WriteFile(list, requirements, 0o644); err != nil {
			return err
		}
		if err := clients.Command(ctx, dir, python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
			"--root-user-action=ignore", "--no-deps", "--only-binary=:all:", "--target", dir, "--requirement", list); err != nil {
			return err
		}
		return clients.Command(ctx, dir, python(), "-m", "compileall", "-q", dir)
	})
}
