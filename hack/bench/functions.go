package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	namespace = "default"
	// readyPatience bounds the wait for one function, boot included.
	readyPatience = 2 * time.Minute
)

// The handlers do as little as they can, so that what is measured is the way.
const (
	nodeHandler   = "export function handler(payload) { return payload; }\n"
	pythonHandler = "def handler(payload, context):\n    return payload\n"
)

// measureApply creates functions one after another on a runtime that is warm.
func (b *bench) measureApply(ctx context.Context) error {
	if _, err := b.apply(ctx, "warm", v1alpha1.LanguageNode, nodeHandler); err != nil {
		return err
	}
	var times samplesOf
	for i := range b.plan.samples {
		// Each source is another one: an equal one may be planted already.
		source := fmt.Sprintf("%s// %d\n", nodeHandler, i)
		took, err := b.apply(ctx, fmt.Sprintf("f%d", i), v1alpha1.LanguageNode, source)
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	add(b.metrics, "apply_ready", times)
	return nil
}

// apply is applyFunction of bench::NAME in the runtime of its prefix.
func (b *bench) apply(ctx context.Context, name string, language v1alpha1.Language, source string) (time.Duration, error) {
	return b.applyFunction(ctx, &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID: functionPrefix + name, Language: language, Source: v1alpha1.FunctionSource{Inline: &source},
		},
	})
}

// applyFunction creates a function and returns how long it took to be Ready.
func (b *bench) applyFunction(ctx context.Context, function *v1alpha1.SandboxFunction) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	name := function.Name
	// The watch begins before the object, so that no change is missed.
	watcher, err := b.kube.Watch(ctx, &v1alpha1.SandboxFunctionList{}, client.InNamespace(namespace),
		client.MatchingFields{"metadata.name": name})
	if err != nil {
		return 0, err
	}
	defer watcher.Stop()
	began := time.Now()
	if err := b.kube.Create(ctx, function); err != nil {
		return 0, err
	}
	for event := range watcher.ResultChan() {
		seen, ok := event.Object.(*v1alpha1.SandboxFunction)
		switch {
		case !ok:
			continue
		case meta.IsStatusConditionTrue(seen.Status.Conditions, v1alpha1.StalledCondition):
			return 0, fmt.Errorf("%s is stalled: %s", name,
				meta.FindStatusCondition(seen.Status.Conditions, v1alpha1.StalledCondition).Message)
		case meta.IsStatusConditionTrue(seen.Status.Conditions, v1alpha1.ReadyCondition):
			return time.Since(began), nil
		}
	}
	return 0, errors.Join(fmt.Errorf("%s did not become Ready", name), ctx.Err())
}
