package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// argoNamespace is where Argo CD is installed, argoConfig the ConfigMap it reads.
const (
	argoNamespace = "argocd"
	argoConfig    = "argocd-cm"
)

// installArgoConfig leaves what an installed Argo CD has, with a setting of its
// owner's, until the end of the spec.
func installArgoConfig(ctx context.Context) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: argoNamespace}}
	Expect(client.IgnoreAlreadyExists(kube.Create(ctx, namespace))).To(Succeed())
	config := object(&corev1.ConfigMap{}, argoNamespace, argoConfig)
	config.Data = map[string]string{"url": "https://argocd.example.com"}
	apply(ctx, config)
	DeferCleanup(func(ctx SpecContext) {
		// The namespace stays: its deletion takes longer than most specs.
		Expect(kube.Delete(ctx, config)).To(Succeed())
	}, specPatience)
}

var _ = Describe("The health checks for Argo CD", func() {
	It("are added to its ConfigMap and leave the rest of it alone", func(ctx SpecContext) {
		installArgoConfig(ctx)
		built := kubectl(ctx, "kustomize", "config/argocd")
		printed, err := tryKubectl(ctx, built, "patch", "-n", argoNamespace, "configmap", argoConfig, "--type=merge", "--patch-file=/dev/stdin")
		Expect(err).NotTo(HaveOccurred(), printed)
		config := object(&corev1.ConfigMap{}, argoNamespace, argoConfig)
		refresh(ctx, config)
		checks, err := readHealthChecks()
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Data).To(HaveLen(len(checks) + 1))
		Expect(config.Data).To(HaveKeyWithValue("url", "https://argocd.example.com"))
		for key, script := range checks {
			Expect(config.Data).To(HaveKeyWithValue(key, script))
		}
		Expect(config.Labels).To(HaveKeyWithValue("app.kubernetes.io/part-of", "argocd"))
	}, specPatience)
})
