package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Options of an Environment.
type Options struct {
	// ControllerManager starts kube-controller-manager with the garbage collector
	// and the namespace controller: without it dependents of deleted owners stay
	// and namespaces never finish their deletion.
	ControllerManager bool
}

// Environment is one API server with etcd and the CRDs of this repository. A
// suite starts one and stops it at its end, also on failure.
type Environment struct {
	// Config reaches the API server as an administrator.
	Config *rest.Config
	// Client reads and writes without a cache; it knows Scheme.
	Client client.Client
	// Scheme has the built-in types and v1alpha1.
	Scheme *runtime.Scheme
	// KubeconfigPath is a kubeconfig file of the same administrator.
	KubeconfigPath string

	envtest   *envtest.Environment
	manager   *controllerManager
	directory string
}

// patience is what each part may take to start, to stop or to install.
const patience = 2 * time.Minute

// Start brings an Environment up in about three seconds. The caller calls Stop
// exactly once, unless Start failed: then nothing is left behind.
func Start(options Options) (*Environment, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	assets, err := assetsDirectory(root)
	if err != nil {
		return nil, err
	}
	e := &Environment{envtest: &envtest.Environment{
		CRDDirectoryPaths:     []string{crdDirectory(root)},
		ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets,
		// The defaults, 20 and 10 seconds, are too short on a machine that is busy.
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: patience},
	}}
	if err := e.start(root, assets, options); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

func (e *Environment) start(root, assets string, options Options) error {
	config, err := e.envtest.Start()
	if err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	e.Config = config
	if e.Scheme, err = NewScheme(); err != nil {
		return err
	}
	if e.Client, err = client.New(config, client.Options{Scheme: e.Scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := e.writeKubeconfig(); err != nil {
		return err
	}
	if !options.ControllerManager {
		return nil
	}
	// After the CRDs: the garbage collector looks for new kinds only every 30 s.
	path, err := controllerManagerPath(root, assets)
	if err != nil {
		return err
	}
	e.manager, err = startControllerManager(path, e.KubeconfigPath)
	return err
}

func (e *Environment) writeKubeconfig() error {
	directory, err := os.MkdirTemp("", "testenv-")
	if err != nil {
		return err
	}
	e.directory = directory
	e.KubeconfigPath = filepath.Join(directory, "kubeconfig")
	return os.WriteFile(e.KubeconfigPath, e.envtest.KubeConfig, 0o600)
}

// Stop ends everything that Start began, the controller manager first: an API
// server that loses its clients' target in the other order hangs.
func (e *Environment) Stop() error {
	var errs []error
	if e.manager != nil {
		errs = append(errs, e.manager.stop())
	}
	errs = append(errs, e.envtest.Stop())
	if e.directory != "" {
		errs = append(errs, os.RemoveAll(e.directory))
	}
	return errors.Join(errs...)
}

// AddUser makes a user that the API server knows but grants nothing, for tests
// of RBAC.
func (e *Environment) AddUser(name string, groups ...string) (*rest.Config, error) {
	user, err := e.envtest.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("adding user %s: %w", name, err)
	}
	return user.Config(), nil
}

// NewNamespace makes an empty namespace with a name of its own, so that specs of
// one suite never meet.
func (e *Environment) NewNamespace(ctx context.Context) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := e.Client.Create(ctx, namespace); err != nil {
		return "", fmt.Errorf("making a namespace: %w", err)
	}
	return namespace.Name, nil
}

// NewScheme knows the built-in types and v1alpha1.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering types: %w", err)
	}
	return scheme, nil
}
