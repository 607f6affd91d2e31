package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// assetsVariable is where envtest and setup-envtest look for the control plane.
const assetsVariable = "KUBEBUILDER_ASSETS"

// RepositoryRoot walks up from the working directory, which for a test is its
// package's folder, to the folder that holds config/crd/bases.
func RepositoryRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if isDirectory(crdDirectory(directory)) {
			return directory, nil
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", errors.New("no folder above the working directory holds config/crd/bases")
		}
		directory = parent
	}
}

func crdDirectory(root string) string { return filepath.Join(root, "config", "crd", "bases") }

func builtAssets(root string) string { return filepath.Join(root, "bin", "k8s") }

// assetsDirectory is what KUBEBUILDER_ASSETS names, else what make controlplane
// built. The error of an incomplete folder says what is missing and what to do.
func assetsDirectory(root string) (string, error) {
	directory := os.Getenv(assetsVariable)
	if directory == "" {
		directory = builtAssets(root)
	}
	for _, program := range []string{"etcd", "kube-apiserver"} {
		if err := requireProgram(directory, program); err != nil {
			return "", err
		}
	}
	return directory, nil
}

// controllerManagerPath prefers the folder of the other programs. The published
// envtest archives have no controller manager, so what was built here serves too.
func controllerManagerPath(root, assets string) (string, error) {
	const program = "kube-controller-manager"
	if requireProgram(assets, program) == nil {
		return filepath.Join(assets, program), nil
	}
	if err := requireProgram(builtAssets(root), program); err != nil {
		return "", err
	}
	return filepath.Join(builtAssets(root), program), nil
}

func requireProgram(directory, program string) error {
	_, err := os.Stat(filepath.Join(directory, program))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no %s in %s: build the control plane with `make controlplane`, or let %s name a folder that has one",
			program, directory, assetsVariable)
	}
	return err
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
