package v1alpha1_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// One API server serves all specs of the API: rules, kubectl, samples and docs.
// It is started here rather than by controllers/internal/testenv, which packages
// outside controllers cannot import.
var (
	apiServer  *envtest.Environment
	apiClient  client.Client // strict: unknown fields are errors, as with kubectl
	kubeconfig string
)

const repository = "../.."

// patience is how long the API server may take to start, to take the CRDs and to stop.
const patience = 2 * time.Minute

func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API v1alpha1")
}

var _ = BeforeSuite(func(_ SpecContext) {
	apiServer = &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(repository, "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets(),
		// The defaults, 20 and 10 seconds, are too short on a machine that is busy.
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: patience},
	}
	config, err := apiServer.Start()
	DeferCleanup(func() { Expect(apiServer.Stop()).To(Succeed()) })
	Expect(err).NotTo(HaveOccurred(), "the API server did not start or refused the CRDs")

	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	direct, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	apiClient = client.WithFieldValidation(direct, metav1.FieldValidationStrict)

	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, apiServer.KubeConfig, 0o600)).To(Succeed())
})

// assets is where the control plane is; a machine without it fails with the
// command that builds it.
func assets() string {
	GinkgoHelper()
	directory := os.Getenv("KUBEBUILDER_ASSETS")
	if directory == "" {
		directory = filepath.Join(repository, "bin", "k8s")
	}
	absolute, err := filepath.Abs(directory)
	Expect(err).NotTo(HaveOccurred())
	for _, program := range []string{"etcd", "kube-apiserver", "kubectl"} {
		Expect(filepath.Join(absolute, program)).To(BeAnExistingFile(), "build it with `make controlplane`")
	}
	return absolute
}

// newNamespace makes a namespace of its own for one spec or table.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(apiClient.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// kubectl runs the real program and returns its output; its error holds what it
// printed.
func kubectl(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(assets(), "kubectl"), arguments...)
	// Its discovery cache goes beside the kubeconfig, not into the user's home.
	home := filepath.Dir(kubeconfig)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "KUBECACHEDIR="+filepath.Join(home, "cache"))
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), &kubectlError{err: err, output: string(output)}
	}
	return string(output), nil
}

type kubectlError struct {
	err    error
	output string
}

func (e *kubectlError) Error() string { return e.err.Error() + ": " + e.output }

func (e *kubectlError) Unwrap() error { return e.err }

// mustKubectl is kubectl for commands that have to succeed.
func mustKubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	output, err := kubectl(ctx, arguments...)
	Expect(err).NotTo(HaveOccurred(), "kubectl %v", arguments)
	return output
}
