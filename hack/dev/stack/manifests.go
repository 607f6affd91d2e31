package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// manifests are the objects of config/default, less those that only make sense
// where Pods run: the operator runs beside the stack instead.
type manifests struct {
	text    []byte
	account serviceAccount
}

// leftOut are the kinds that nothing in the stack would act on.
var leftOut = []string{"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor"}

// renderManifests builds config/default with kubectl's kustomize; no server is
// asked.
func (s *Stack) renderManifests(ctx context.Context) (manifests, error) {
	rendered, err := s.run(ctx, "kustomize", filepath.Join(s.options.Root, "config", "default"))
	if err != nil {
		return manifests{}, fmt.Errorf("rendering config/default: %w", err)
	}
	return selectManifests(rendered, s.options.RunsNamespace)
}

// selectManifests drops what leftOut names and adds the namespace for runs if it
// is not among the rest.
func selectManifests(rendered []byte, runsNamespace string) (manifests, error) {
	var m manifests
	namespaces := []string{}
	for _, document := range bytes.Split(rendered, []byte("\n---\n")) {
		var object struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal(document, &object); err != nil {
			return m, fmt.Errorf("reading config/default: %w", err)
		}
		if object.Kind == "" || slices.Contains(leftOut, object.Kind) {
			continue
		}
		switch object.Kind {
		case "ServiceAccount":
			m.account = serviceAccount{object.Metadata.Namespace, object.Metadata.Name}
		case "Namespace":
			namespaces = append(namespaces, object.Metadata.Name)
		}
		m.text = append(append(m.text, document...), "\n---\n"...)
	}
	if m.account.name == "" {
		return m, errors.New("config/default has no ServiceAccount")
	}
	if !slices.Contains(namespaces, runsNamespace) {
		m.text = fmt.Appendf(m.text, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", runsNamespace)
	}
	return m, nil
}

// installManifests applies them and waits until the API serves the kinds: the
// garbage collector reads what kinds exist when it starts, and then only every
// 30 s.
func (s *Stack) installManifests(ctx context.Context) error {
	path := filepath.Join(s.stateDir(), "manifests.yaml")
	if err := os.WriteFile(path, s.manifests.text, 0o600); err != nil {
		return err
	}
	if _, err := s.run(ctx, "apply", "--server-side", "-f", path); err != nil {
		return fmt.Errorf("applying config/default: %w", err)
	}
	_, err := s.run(ctx, "wait", "--for=condition=Established", "--timeout=60s",
		"crd/sandboxruntimes.sandbox.iii.dev", "crd/sandboxfunctions.sandbox.iii.dev", "crd/sandboxruns.sandbox.iii.dev")
	return err
}

// Kubectl returns a kubectl command that talks to the stack as administrator,
// ready to be run. It reads no configuration of the user.
func (s *Stack) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(s.options.Assets, "kubectl"), args...)
	command.Env = append(baseEnvironment(), "KUBECONFIG="+s.Kubeconfig, "KUBERC=off",
		"KUBECACHEDIR="+filepath.Join(s.stateDir(), "kubectl-cache"))
	return command
}

func (s *Stack) run(ctx context.Context, args ...string) ([]byte, error) {
	return output(s.Kubectl(ctx, args...))
}

// output runs a command; its error carries what it said.
func output(command *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(command.Path), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout, nil
}
