package e2e

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// sandboxKinds are what users delete; runtimes come last, so that the functions
// leave the bus first.
var sandboxKinds = []client.Object{&v1alpha1.SandboxFunction{}, &v1alpha1.SandboxRun{}, &v1alpha1.SandboxRuntime{}}

func sandboxLists() []client.ObjectList {
	return []client.ObjectList{&v1alpha1.SandboxFunctionList{}, &v1alpha1.SandboxRunList{}, &v1alpha1.SandboxRuntimeList{}}
}

// objectsEverywhere lists the objects of our kinds as namespace/kind/name.
func objectsEverywhere(ctx context.Context) ([]string, error) {
	versions, err := versionsOf(ctx, sandboxLists()...)
	names := []string{}
	for name := range versions {
		names = append(names, name)
	}
	return sorted(names), err
}

// rootCertificates is a ConfigMap that Kubernetes puts into every namespace, some
// time after it is made.
const rootCertificates = "kube-root-ca.crt"

// versionsOf maps objects to their resource versions.
func versionsOf(ctx context.Context, lists ...client.ObjectList) (map[string]string, error) {
	versions := map[string]string{}
	for _, list := range lists {
		if err := kube.List(ctx, list); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			if obj.GetName() == rootCertificates {
				return nil
			}
			versions[fmt.Sprintf("%s/%T/%s", obj.GetNamespace(), obj, obj.GetName())] = obj.GetResourceVersion()
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return versions, nil
}

// world is everything that a refused request must leave alone.
type world struct {
	// Objects are our kinds and ConfigMaps, with their versions.
	Objects map[string]string
	// Functions are the ids on the bus, Sandboxes the ids in the daemon's list.
	Functions []string
	Sandboxes []string
}

func readWorld(ctx context.Context) (world, error) {
	objects, err := versionsOf(ctx, append(sandboxLists(), &corev1.ConfigMapList{})...)
	if err != nil {
		return world{}, err
	}
	sandboxes, err := listSandboxes(ctx, caller)
	if err != nil {
		return world{}, err
	}
	ids := []string{}
	for _, s := range sandboxes {
		ids = append(ids, s.ID)
	}
	return world{Objects: objects, Functions: functionsOnBus(ctx), Sandboxes: sorted(ids)}, nil
}

// expectNoChange acts and then expects the world as it was. What a refused
// request made on the way is deleted in the background, so that may take a moment.
func expectNoChange(ctx context.Context, act func()) {
	GinkgoHelper()
	settle(ctx)
	before, err := readWorld(ctx)
	Expect(err).NotTo(HaveOccurred())
	act()
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		after, err := readWorld(ctx)
		return after.equal(before), err
	}).Should(BeTrue(), "the refused request changed something")
}

func (w world) equal(other world) bool {
	same := len(w.Objects) == len(other.Objects)
	for name, version := range w.Objects {
		same = same && other.Objects[name] == version
	}
	return same && slices.Equal(w.Functions, other.Functions) && slices.Equal(w.Sandboxes, other.Sandboxes)
}
