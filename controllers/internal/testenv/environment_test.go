package testenv_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
)

var environment *testenv.Environment

func TestEnvironment(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test environment")
}

var _ = BeforeSuite(func() {
	var err error
	environment, err = testenv.Start(testenv.Options{ControllerManager: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
})

// The garbage collector may need its 30 s poll before it knows a kind.
const collectionTimeout = 60 * time.Second

var _ = Describe("Environment", func() {
	It("makes namespaces of their own", func(ctx SpecContext) {
		first, err := environment.NewNamespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		second, err := environment.NewNamespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(first).NotTo(Equal(second))
	})

	It("collects what a deleted object owns", func(ctx SpecContext) {
		namespace, err := environment.NewNamespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		owner := &v1alpha1.SandboxRuntime{
			ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: namespace},
			Spec:       v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguageNode},
		}
		Expect(environment.Client.Create(ctx, owner)).To(Succeed())
		owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", Namespace: namespace}}
		Expect(controllerutil.SetControllerReference(owner, owned, environment.Scheme)).To(Succeed())
		Expect(environment.Client.Create(ctx, owned)).To(Succeed())

		Expect(environment.Client.Delete(ctx, owner)).To(Succeed())
		expectGone(ctx, owned)
	})

	It("finishes the deletion of namespaces", func(ctx SpecContext) {
		name, err := environment.NewNamespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		Expect(environment.Client.Delete(ctx, namespace)).To(Succeed())
		expectGone(ctx, namespace)
	})

	It("grants an added user nothing", func(ctx SpecContext) {
		config, err := environment.AddUser("stranger")
		Expect(err).NotTo(HaveOccurred())
		stranger, err := client.New(config, client.Options{Scheme: environment.Scheme})
		Expect(err).NotTo(HaveOccurred())
		err = stranger.List(ctx, &v1alpha1.SandboxRunList{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	})

	It("names the command that builds a missing control plane", func() {
		GinkgoT().Setenv("KUBEBUILDER_ASSETS", GinkgoT().TempDir())
		_, err := testenv.Start(testenv.Options{})
		Expect(err).To(MatchError(And(ContainSubstring("no etcd in"), ContainSubstring("make controlplane"))))
	})

	It("finds the root of the repository from a package's folder", func() {
		root, err := testenv.RepositoryRoot()
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Join(root, "go.mod")).To(BeARegularFile())
	})

	It("says so when there is no repository above", func() {
		GinkgoT().Chdir(GinkgoT().TempDir())
		_, err := testenv.RepositoryRoot()
		Expect(err).To(MatchError(ContainSubstring("config/crd/bases")))
	})

	It("writes a kubeconfig that only its owner reads", func() {
		info, err := os.Stat(environment.KubeconfigPath)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	})
})

func expectGone(ctx SpecContext, object client.Object) {
	GinkgoHelper()
	Eventually(func() bool {
		return apierrors.IsNotFound(environment.Client.Get(ctx, client.ObjectKeyFromObject(object), object))
	}).WithContext(ctx).WithTimeout(collectionTimeout).WithPolling(100 * time.Millisecond).Should(BeTrue())
}
