// Package index names the field indexes of the manager's cache and registers
// them, for the manager, for test suites and for fake clients alike.
package index

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Index keys.
const (
	// FunctionByID finds SandboxFunctions of all namespaces by functionID.
	FunctionByID = "spec.functionID"
	// FunctionByPrefix finds SandboxFunctions of all namespaces by id prefix.
	FunctionByPrefix = "prefix"
	// FunctionByRuntime finds SandboxFunctions by the name of their runtime, the
	// implicit one included.
	FunctionByRuntime = "runtime"
	// FunctionByConfigMap finds SandboxFunctions by the ConfigMap of their source.
	FunctionByConfigMap = "spec.source.configMapKeyRef.name"
	// RuntimeByConfigMap finds SandboxRuntimes by a ConfigMap of their variables and
	// files.
	RuntimeByConfigMap = "spec.configMapKeyRef.name"
)

// Definition is one index.
type Definition struct {
	Object  client.Object
	Field   string
	Extract client.IndexerFunc
}

// Definitions lists all indexes.
func Definitions() []Definition {
	return []Definition{
		{&sandboxv1alpha1.SandboxFunction{}, FunctionByID, functionID},
		{&sandboxv1alpha1.SandboxFunction{}, FunctionByPrefix, functionPrefix},
		{&sandboxv1alpha1.SandboxFunction{}, FunctionByRuntime, functionRuntime},
		{&sandboxv1alpha1.SandboxFunction{}, FunctionByConfigMap, functionConfigMap},
		{&sandboxv1alpha1.SandboxRuntime{}, RuntimeByConfigMap, runtimeConfigMaps},
	}
}

// Register adds all indexes to a cache.
func Register(ctx context.Context, indexer client.FieldIndexer) error {
	for _, d := range Definitions() {
		if err := indexer.IndexField(ctx, d.Object, d.Field, d.Extract); err != nil {
			return err
		}
	}
	return nil
}

func functionID(obj client.Object) []string {
	return []string{obj.(*sandboxv1alpha1.SandboxFunction).Spec.FunctionID}
}

func functionPrefix(obj client.Object) []string {
	return []string{Prefix(obj.(*sandboxv1alpha1.SandboxFunction).Spec.FunctionID)}
}

func functionRuntime(obj client.Object) []string {
	return []string{RuntimeName(obj.(*sandboxv1alpha1.SandboxFunction))}
}

func functionConfigMap(obj client.Object) []string {
	if ref := obj.(*sandboxv1alpha1.SandboxFunction).Spec.Source.ConfigMapKeyRef; ref != nil {
		return []string{ref.Name}
	}
	return nil
}

func runtimeConfigMaps(obj client.Object) []string {
	names := obj.(*sandboxv1alpha1.SandboxRuntime).Spec.ConfigMapNames()
	slices.Sort(names)
	return slices.Compact(names)
}
