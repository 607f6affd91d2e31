// Package v1alpha1 is the first version of the sandbox.iii.dev API: runtimes,
// functions and runs of sandboxed code.
// +kubebuilder:object:generate=true
// +groupName=sandbox.iii.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names the group and version of this package's types.
var GroupVersion = schema.GroupVersion{Group: "sandbox.iii.dev", Version: "v1alpha1"}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&SandboxRuntime{}, &SandboxRuntimeList{},
		&SandboxFunction{}, &SandboxFunctionList{},
		&SandboxRun{}, &SandboxRunList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
