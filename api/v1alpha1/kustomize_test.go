package v1alpha1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var configDirectory = filepath.Join(repository, "config")

// applicableSamples are the sample files that hold objects.
func applicableSamples() []string {
	GinkgoHelper()
	all, err := filepath.Glob(filepath.Join(configDirectory, "samples", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var samples []string
	for _, path := range all {
		if filepath.Base(path) != "kustomization.yaml" {
			samples = append(samples, path)
		}
	}
	Expect(samples).NotTo(BeEmpty())
	return samples
}

var _ = Describe("config", func() {
	It("has samples that the API server accepts, each by itself", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		for _, sample := range applicableSamples() {
			mustKubectl(ctx, "create", "--dry-run=server", "--validate=strict", "--namespace", namespace, "-f", sample)
		}
	})

	DescribeTable("has sample kustomizations that the API server accepts", func(ctx SpecContext, directory string) {
		mustKubectl(ctx, "apply", "--dry-run=server", "--validate=strict", "--namespace", newNamespace(ctx),
			"-k", filepath.Join(configDirectory, directory))
	},
		Entry("of inline sources", "samples"),
		Entry("of a source in a ConfigMap", "samples/configmap"),
	)

	It("installs the operator as a Pod that the restricted standard admits", func(ctx SpecContext) {
		mustKubectl(ctx, "apply", "--server-side", "--validate=strict", "-k", filepath.Join(configDirectory, "default"))
		deployment := &appsv1.Deployment{}
		key := client.ObjectKey{Namespace: "sandbox-operator-system", Name: "sandbox-operator-controller-manager"}
		Expect(apiClient.Get(ctx, key, deployment)).To(Succeed())
		// A Deployment only warns; its Pod is judged by the namespace's label.
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "manager", Namespace: key.Namespace},
			Spec:       deployment.Spec.Template.Spec,
		}
		Expect(apiClient.Create(ctx, pod, client.DryRunAll)).To(Succeed())
		pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		Expect(apiClient.Create(ctx, pod, client.DryRunAll)).To(MatchError(ContainSubstring("restricted")))
	})

	It("carries generated names and prefixes into every reference", func(ctx SpecContext) {
		rendered := mustKubectl(ctx, "kustomize", referencesOverlay())
		hashed := func(name string) string {
			return regexp.MustCompile(`name: (team-` + name + `-[a-z0-9]{10})\n`).FindString(rendered)
		}
		Expect(hashed("code")).NotTo(BeEmpty())
		Expect(hashed("key")).NotTo(BeEmpty())
		// The ConfigMap itself, two sources and three variables.
		Expect(strings.Count(rendered, hashed("code"))).To(Equal(6))
		// The Secret itself and three variables.
		Expect(strings.Count(rendered, hashed("key"))).To(Equal(4))
		// The SandboxRuntime itself, the function's and the run's runtimeRef.
		Expect(strings.Count(rendered, "name: team-python\n")).To(Equal(3))
	})
})

// referencesOverlay is a user's kustomization in which every field that can refer
// to something does.
func referencesOverlay() string {
	GinkgoHelper()
	directory := GinkgoT().TempDir()
	component, err := filepath.Abs(filepath.Join(configDirectory, "namereference"))
	Expect(err).NotTo(HaveOccurred())
	relative, err := filepath.Rel(directory, component)
	Expect(err).NotTo(HaveOccurred())
	files := map[string]string{
		"kustomization.yaml": "namePrefix: team-\ncomponents: [" + relative + "]\nresources: [objects.yaml]\n" +
			"configMapGenerator: [{name: code, literals: [k=v]}]\nsecretGenerator: [{name: key, literals: [k=v]}]\n",
		"objects.yaml": referencingObjects,
	}
	for name, content := range files {
		Expect(os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600)).To(Succeed())
	}
	return directory
}

const referencingEnv = `[{name: A, valueFrom: {configMapKeyRef: {name: code, key: k}}}, {name: B, valueFrom: {secretKeyRef: {name: key, key: k}}}]`

const referencingObjects = `
apiVersion: sandbox.iii.dev/v1alpha1
kind: SandboxRuntime
metadata: {name: python}
spec: {language: Python, env: ` + referencingEnv + `}
---
apiVersion: sandbox.iii.dev/v1alpha1
kind: SandboxFunction
metadata: {name: f}
spec: {functionID: "shop::f", runtimeRef: {name: python}, source: {configMapKeyRef: {name: code, key: k}}}
---
apiVersion: sandbox.iii.dev/v1alpha1
kind: SandboxRun
metadata: {name: a}
spec: {runtimeRef: {name: python}, source: {configMapKeyRef: {name: code, key: k}}, env: ` + referencingEnv + `}
---
apiVersion: sandbox.iii.dev/v1alpha1
kind: SandboxRun
metadata: {name: b}
spec: {language: Python, source: {inline: x}, runtime: {env: ` + referencingEnv + `}}
`
