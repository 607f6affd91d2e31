//go:build flux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What is in the repository: a runtime, and a function whose source is a file of
// its own.
const (
	runtimeFile = `apiVersion: sandbox.iii.dev/v1alpha1
kind: SandboxRuntime
metadata:
  name: shop
spec:
  language: Python
`
	functionFile = `apiVersion: sandbox.iii.dev/v1alpha1
kind: SandboxFunction
metadata:
  name: price
spec:
  functionID: %s::price
  runtimeRef:
    name: shop
  source:
    configMapKeyRef:
      name: price
      key: price.py
`
	functionsFile = `components:
  - ../namereference
resources:
  - price.yaml
configMapGenerator:
  - name: price
    files:
      - price.py
    options:
      immutable: true
`
	// nothingLeftFile is what stands in a folder from which everything went.
	nothingLeftFile = `configMapGenerator:
  - name: closed
    literals:
      - shop=closed
`
	sourceFile = `def handler(payload, context):
    return %d
`
)

// shopFiles are the first commit. The component comes from this repository.
func shopFiles(prefix string) map[string]string {
	GinkgoHelper()
	files := map[string]string{
		"runtimes/shop.yaml":           runtimeFile,
		"functions/kustomization.yaml": functionsFile,
		"functions/price.yaml":         fmt.Sprintf(functionFile, prefix),
		"functions/price.py":           fmt.Sprintf(sourceFile, 350),
	}
	for _, name := range []string{"kustomization.yaml", "kustomizeconfig.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "config", "namereference", name))
		Expect(err).NotTo(HaveOccurred())
		files["namereference/"+name] = string(text)
	}
	return files
}

// fluxObjects follow the repository and apply its two folders, the functions
// after the runtimes.
const fluxObjects = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: shop
spec:
  url: %[1]s
  ref: {branch: main}
  interval: 1s
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: runtimes
spec:
  sourceRef: {kind: GitRepository, name: shop}
  path: ./runtimes
  targetNamespace: %[2]s
  interval: 10m
  retryInterval: 2s
  timeout: 1m
  prune: true
  wait: true
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: functions
spec:
  dependsOn: [{name: runtimes}]
  sourceRef: {kind: GitRepository, name: shop}
  path: ./functions
  targetNamespace: %[2]s
  interval: 10m
  retryInterval: 2s
  timeout: 1m
  prune: true
  wait: true
`

// kustomization is what Flux says of one.
type kustomization struct {
	Status struct {
		Conditions            []metav1.Condition `json:"conditions"`
		LastAppliedRevision   string             `json:"lastAppliedRevision"`
		LastAttemptedRevision string             `json:"lastAttemptedRevision"`
	} `json:"status"`
}

// fluxReady returns a function for Eventually: the Ready condition of a
// Kustomization, once it speaks of the commit.
func fluxReady(namespace, name, commit string) func(context.Context) (metav1.Condition, error) {
	revision := branch + "@sha1:" + commit
	return func(ctx context.Context) (metav1.Condition, error) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"})
		if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, live); err != nil {
			return metav1.Condition{}, err
		}
		var read kustomization
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &read); err != nil {
			return metav1.Condition{}, err
		}
		ready := meta.FindStatusCondition(read.Status.Conditions, "Ready")
		if ready == nil || read.Status.LastAttemptedRevision != revision {
			return metav1.Condition{}, nil
		}
		if ready.Status == metav1.ConditionTrue && read.Status.LastAppliedRevision != revision {
			return metav1.Condition{}, nil
		}
		return *ready, nil
	}
}
