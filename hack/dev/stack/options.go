package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Options says what a Stack consists of and where it keeps its files. Dir is
// required.
type Options struct {
	// Root is the repository; empty means the one around the working directory.
	Root string
	// Dir gets the kubeconfig and the env file, logs/ and, while the stack runs,
	// state/. It is made if it is missing. One stack at a time may use it.
	Dir string
	// LogDir is where the logs go and stay; empty means Dir/logs.
	LogDir string
	// Assets holds etcd, kube-apiserver, kube-controller-manager and kubectl;
	// empty means bin/k8s of Root.
	Assets string
	// DaemonProgram and OperatorProgram are binaries; empty means
	// bin/sandbox-daemon and bin/manager of Root.
	DaemonProgram   string
	OperatorProgram string
	// PythonSDK is a folder of Python packages, iii-sdk among them, that the
	// daemon offers to guests of the python image; empty means bin/python-sdk of
	// Root.
	PythonSDK string
	// GuestHostPorts are further loopback ports of this machine that guests with a
	// network reach, such as that of a package registry.
	GuestHostPorts []int
	// BusAddress and HTTPAddress are loopback addresses of the engine's worker
	// port and of its http triggers; empty means free ports.
	BusAddress  string
	HTTPAddress string
	// RunsNamespace is the operator's --runs-namespace, which Start makes; empty
	// means DefaultRunsNamespace.
	RunsNamespace string
	// OperatorFlags are given to the operator after those of the stack.
	OperatorFlags []string
	// Audit has the API server write what the operator's service account asks of it,
	// and whether it was let, to the file that AuditPath names.
	Audit bool
	// SkipDaemon and SkipOperator leave these parts out, for tests of the rest.
	SkipDaemon   bool
	SkipOperator bool
	// Progress hears of each step once it is done; nil is silent. It is called
	// from the goroutine of Start or Stop.
	Progress func(Step)
}

// Step is one thing that Start or Stop did.
type Step struct {
	// Name says what was done, in a few words.
	Name string
	// Detail is where to find it, may be empty.
	Detail string
	// Took is how long it took.
	Took time.Duration
}

// DefaultRunsNamespace is where calls on the bus become objects.
const DefaultRunsNamespace = "sandbox-runs"

// complete fills in the defaults and checks that all programs are there, so that
// a missing build is reported before anything runs.
func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("options: Dir is empty")
	}
	var err error
	if o.Root == "" {
		if o.Root, err = repositoryRoot(); err != nil {
			return o, err
		}
	}
	// Paths go into the arguments of processes with other working directories.
	for _, path := range []*string{&o.Root, &o.Dir} {
		if *path, err = filepath.Abs(*path); err != nil {
			return o, err
		}
	}
	setDefault(&o.LogDir, filepath.Join(o.Dir, "logs"))
	setDefault(&o.Assets, filepath.Join(o.Root, "bin", "k8s"))
	setDefault(&o.DaemonProgram, filepath.Join(o.Root, "bin", "sandbox-daemon"))
	setDefault(&o.OperatorProgram, filepath.Join(o.Root, "bin", "manager"))
	setDefault(&o.PythonSDK, filepath.Join(o.Root, "bin", "python-sdk"))
	setDefault(&o.BusAddress, "127.0.0.1:0")
	setDefault(&o.HTTPAddress, "127.0.0.1:0")
	setDefault(&o.RunsNamespace, DefaultRunsNamespace)
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	return o, o.checkPrograms()
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func (o Options) checkPrograms() error {
	programs := map[string]string{}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"} {
		programs[filepath.Join(o.Assets, name)] = "controlplane"
	}
	if !o.SkipDaemon {
		programs[o.DaemonProgram], programs[o.PythonSDK] = "build", "build"
	}
	if !o.SkipOperator {
		programs[o.OperatorProgram] = "build"
	}
	for program, target := range programs {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s is missing; run `make %s`", program, target)
		}
	}
	return nil
}

// repositoryRoot is the folder with config/crd at or above the working
// directory.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "config", "crd")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside the repository: no config/crd at or above the working directory")
		}
		dir = parent
	}
}
