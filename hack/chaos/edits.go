package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// edit gives any function a new version.
func (l *load) edit(ctx context.Context) {
	s := l.subjects[rand.IntN(len(l.subjects))]
	l.note("edit", l.write(ctx, s, s.next()))
}

func (l *load) write(ctx context.Context, s *subject, version int) error {
	changed := s.object.DeepCopy()
	changed.Annotations = map[string]string{versionAnnotation: strconv.Itoa(version)}
	source := sourceOf(s.language(), s.id, version)
	changed.Spec.Source.Inline = &source
	original := s.object.DeepCopy()
	original.Annotations, original.Spec.Source.Inline = nil, nil
	// Nothing of the answer goes into s.object, which several goroutines read.
	return l.world.kube.Patch(ctx, changed, client.MergeFrom(original))
}

// observe notes which versions the objects say are served.
func (l *load) observe(ctx context.Context) {
	var functions v1alpha1.SandboxFunctionList
	if l.world.kube.List(ctx, &functions, client.InNamespace(chaosNamespace)) != nil {
		return // the API server is away
	}
	for i := range functions.Items {
		f := &functions.Items[i]
		version, err := strconv.Atoi(f.Annotations[versionAnnotation])
		if err != nil || !isReady(f.Status.Conditions, f.Status.ObservedGeneration, f.Generation) {
			continue
		}
		for _, s := range l.subjects {
			if s.id == f.Spec.FunctionID {
				s.confirm(version)
			}
		}
	}
}

// createRun makes an object that runs a program.
func (l *load) createRun(ctx context.Context) {
	l.note("run object", l.world.kube.Create(ctx, newRun(l.numbers.Add(1))))
}

// passBy makes a function with a runtime of its own and deletes it again, whatever
// it has come to.
func (l *load) passBy(ctx context.Context) {
	name := fmt.Sprintf("passing-%d", l.numbers.Add(1))
	id := "passing::" + name
	f := newFunction(name, id, sourceOf(v1alpha1.LanguageNode, id, 1))
	f.Spec.Runtime = &v1alpha1.FunctionRuntime{Language: v1alpha1.LanguageNode}
	if err := l.world.kube.Create(ctx, f); err != nil {
		l.note("passing", err)
		return
	}
	wait(ctx, passingPause())
	l.note("passing", client.IgnoreNotFound(l.world.kube.Delete(ctx, f)))
}

// finalEdits writes every function once more, so that all must come to a known
// version, and removes what passed by.
func (l *load) finalEdits(ctx context.Context) []string {
	var problems []string
	for _, s := range l.subjects {
		if err := l.write(ctx, s, s.next()); err != nil {
			problems = append(problems, fmt.Sprintf("editing %s: %s", s.id, err))
		}
	}
	var functions v1alpha1.SandboxFunctionList
	if err := l.world.kube.List(ctx, &functions, client.InNamespace(chaosNamespace)); err != nil {
		return append(problems, err.Error())
	}
	err := meta.EachListItem(&functions, l.deletePassing(ctx))
	if err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}
