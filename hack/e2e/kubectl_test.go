package e2e

import (
	"bytes"
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// root is the repository, as seen from this folder.
const root = "../.."

// tryKubectl returns what the command printed, errors included.
func tryKubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	command := running.Kubectl(ctx, args...)
	command.Dir = root
	command.Stdin = strings.NewReader(stdin)
	var printed bytes.Buffer
	command.Stdout, command.Stderr = &printed, &printed
	err := command.Run()
	return printed.String(), err
}

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	printed, err := tryKubectl(ctx, "", args...)
	Expect(err).NotTo(HaveOccurred(), "kubectl %s: %s", strings.Join(args, " "), printed)
	return printed
}

// tryApply applies an object as a user would, from a manifest.
func tryApply(ctx context.Context, obj client.Object) (string, error) {
	GinkgoHelper()
	return tryKubectl(ctx, manifest(obj), "apply", "-f", "-")
}

func apply(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	printed, err := tryApply(ctx, obj)
	Expect(err).NotTo(HaveOccurred(), printed)
}

func manifest(obj client.Object) string {
	GinkgoHelper()
	kind, err := kube.GroupVersionKindFor(obj)
	Expect(err).NotTo(HaveOccurred())
	obj.GetObjectKind().SetGroupVersionKind(kind)
	text, err := yaml.Marshal(obj)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// newNamespace makes a namespace for one spec; what is in it goes with the spec.
// Its name serves as an id prefix too.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	Expect(kube.Create(ctx, namespace)).To(Succeed())
	DeferCleanup(emptyNamespace, namespace.Name, specPatience)
	return namespace.Name
}

// emptyNamespace leaves the namespace itself, whose deletion takes longer than
// most specs.
func emptyNamespace(ctx SpecContext, name string) {
	GinkgoHelper()
	for _, kind := range sandboxKinds {
		Expect(kube.DeleteAllOf(ctx, kind, client.InNamespace(name))).To(Succeed())
	}
	Eventually(ctx, objectsEverywhere).ShouldNot(ContainElement(ContainSubstring(name + "/")))
}

// object names an object by its namespace and name.
func object[T client.Object](obj T, namespace, name string) T {
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// conditioned is an object of one of our kinds.
type conditioned interface {
	client.Object
	GetConditions() []metav1.Condition
}

// condition returns a function for Eventually: the condition as it is now, for
// the object's present generation.
func condition(obj conditioned, kind string) func(context.Context) (metav1.Condition, error) {
	return func(ctx context.Context) (metav1.Condition, error) {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return metav1.Condition{}, err
		}
		found := meta.FindStatusCondition(obj.GetConditions(), kind)
		if found == nil || found.ObservedGeneration != obj.GetGeneration() {
			return metav1.Condition{}, nil
		}
		return *found, nil
	}
}

// waitFor is kubectl wait.
func waitFor(ctx context.Context, obj conditioned, kind, resource string) {
	GinkgoHelper()
	kubectl(ctx, "wait", "-n", obj.GetNamespace(), "--for=condition="+kind, resource+"/"+obj.GetName(), "--timeout=40s")
	Expect(kube.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
}
