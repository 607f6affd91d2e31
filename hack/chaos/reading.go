package main

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

// reading is everything that has to agree.
type reading struct {
	functions []v1alpha1.SandboxFunction
	runtimes  []v1alpha1.SandboxRuntime
	runs      []v1alpha1.SandboxRun
	sandboxes []sandboxRow
	// published are the ids on the bus that are neither the engine's, nor the
	// daemon's, nor the operator's own.
	published []string
}

func (w *world) read(ctx context.Context) (reading, error) {
	var functions v1alpha1.SandboxFunctionList
	var runtimes v1alpha1.SandboxRuntimeList
	var runs v1alpha1.SandboxRunList
	for _, list := range []client.ObjectList{&functions, &runtimes, &runs} {
		if err := w.kube.List(ctx, list); err != nil {
			return reading{}, err
		}
	}
	sandboxes, err := w.listSandboxes(ctx)
	if err != nil {
		return reading{}, err
	}
	published, err := w.listPublished(ctx)
	return reading{functions.Items, runtimes.Items, runs.Items, sandboxes, published}, err
}

func (w *world) listPublished(ctx context.Context) ([]string, error) {
	type response struct {
		Functions []struct {
			ID string `json:"function_id"`
		} `json:"functions"`
	}
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	answer, err := bus.Invoke[response](ctx, w.caller, "engine::functions::list", m{})
	var ids []string
	for _, f := range answer.Functions {
		for _, s := range []string{"mixed::", "bench::", "twins::", "hired::", "passing::"} {
			if strings.HasPrefix(f.ID, s) {
				ids = append(ids, f.ID)
			}
		}
	}
	return ids, err
}

// isReady says that an object is Ready, and that this is said of its newest spec.
func isReady(conditions []metav1.Condition, observed, generation int64) bool {
	for _, c := range conditions {
		if c.Type == v1alpha1.ReadyCondition {
			return c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation && observed == generation
		}
	}
	return false
}
