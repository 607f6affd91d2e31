package v1alpha1_test

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

var _ = Describe("roles", Ordered, func() {
	// envtest has no aggregation controller, so the roles are bound themselves.
	as := func(role string) client.Client {
		GinkgoHelper()
		user, err := apiServer.AddUser(envtest.User{Name: role}, nil)
		Expect(err).NotTo(HaveOccurred())
		asUser, err := client.New(user.Config(), client.Options{Scheme: apiClient.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		return asUser
	}
	var namespace string
	BeforeAll(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		mustKubectl(ctx, "apply", "-f", filepath.Join(configDirectory, "rbac", "aggregated_roles.yaml"))
		for _, role := range []string{"viewer", "editor"} {
			mustKubectl(ctx, "create", "rolebinding", role, "--namespace", namespace, "--clusterrole", role, "--user", role)
		}
	})

	It("lets viewers read and nothing else", func(ctx SpecContext) {
		viewer := as("viewer")
		Expect(viewer.List(ctx, &v1alpha1.SandboxRunList{}, client.InNamespace(namespace))).To(Succeed())
		Expect(viewer.Create(ctx, runKind.object(namespace))).To(MatchError(ContainSubstring("forbidden")))
	})

	It("lets editors write specs but not status", func(ctx SpecContext) {
		editor := as("editor")
		run := runKind.object(namespace)
		Expect(editor.Create(ctx, run)).To(Succeed())
		Expect(editor.Status().Update(ctx, run)).To(MatchError(ContainSubstring("forbidden")))
		Expect(editor.Delete(ctx, run)).To(Succeed())
	})
})
