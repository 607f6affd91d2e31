package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	// namespaces is how many namespaces share the runtimes.
	namespaces = 10
	// atOnce is how many requests of the benchmark are under way.
	atOnce = 16
	// readyPatience bounds the wait for all functions.
	readyPatience = 15 * time.Minute
)

// function is one of the functions, by its number. Functions of one id prefix
// share a runtime.
type function struct{ number, runtimes int }

func (f function) prefix() string    { return fmt.Sprintf("scale-%02d", f.number%f.runtimes) }
func (f function) namespace() string { return namespaceName(f.number % f.runtimes % namespaces) }
func (f function) name() string      { return fmt.Sprintf("f-%04d", f.number) }
func (f function) id() string        { return f.prefix() + "::" + f.name() }

func namespaceName(i int) string { return fmt.Sprintf("scale-%d", i) }

// source is another one for each function and edition, of a usual length. The
// scripted guest answers calls with it.
func (f function) source(edition int) string {
	return fmt.Sprintf("// %s, edition %d\n", f.id(), edition) +
		"export async function handler(payload, context) {\n" +
		strings.Repeat("  context.log('a line of a function that does something');\n", 10) +
		"  return payload;\n}\n"
}

func (f function) object() *v1alpha1.SandboxFunction {
	source := f.source(0)
	return &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace(), Name: f.name()},
		Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID: f.id(), Language: v1alpha1.LanguageNode, Source: v1alpha1.FunctionSource{Inline: &source},
		},
	}
}

func (r round) all() []function {
	all := make([]function, r.functions)
	for i := range all {
		all[i] = function{number: i, runtimes: r.runtimes}
	}
	return all
}

func (w *world) makeNamespaces(ctx context.Context) error {
	for i := range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceName(i)}}
		if err := w.kube.Create(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// apply creates all functions at once and returns how long it took until all had
// been Ready.
func (w *world) apply(ctx context.Context, functions []function) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	began := time.Now()
	creating, creatingCtx := errgroup.WithContext(ctx)
	creating.SetLimit(atOnce)
	for _, f := range functions {
		creating.Go(func() error { return w.kube.Create(creatingCtx, f.object()) })
	}
	if err := creating.Wait(); err != nil {
		return 0, err
	}
	if err := w.observer.await(ctx, len(functions)); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// edit gives a function another source.
func (w *world) edit(ctx context.Context, f function, edition int) error {
	object := f.object()
	base := object.DeepCopy()
	*object.Spec.Source.Inline = f.source(edition)
	return w.kube.Patch(ctx, object, client.MergeFrom(base))
}
