package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// load is what goes on during the storm: calls, edits and runs. Any of them may
// fail then, but none may be answered wrongly.
type load struct {
	world    *world
	subjects []*subject
	// numbers make tokens.
	numbers atomic.Int64
	pulse   pulse

	mutex sync.Mutex
	// wrong are answers that should not have been given.
	wrong []string
	// outcomes counts what calls and runs came to.
	outcomes map[string]int
	// busRuns are the tokens of runs on the bus that were answered with success.
	busRuns []string
}

func newLoad(ctx context.Context, w *world) (*load, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chaosNamespace}}
	return &load{world: w, subjects: newSubjects(), outcomes: map[string]int{}}, w.kube.Create(ctx, namespace)
}

// preparePatience bounds the time until everything answers before the storm.
const preparePatience = 4 * time.Minute

// prepare makes all objects and waits until every function answers.
func (l *load) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, preparePatience)
	defer cancel()
	if err := l.world.kube.Create(ctx, newWorkshop()); err != nil {
		return err
	}
	for _, s := range l.subjects {
		if err := l.world.kube.Create(ctx, s.object); err != nil {
			return err
		}
	}
	if err := l.register(ctx); err != nil {
		return err
	}
	return l.awaitAnswers(ctx)
}

// register publishes the function that the bus owns.
func (l *load) register(ctx context.Context) error {
	source := sourceOf("Python", busFunction, 1)
	for {
		_, err := l.call(ctx, "sandbox-code-runner::register_function", m{"function_id": busFunction, "lang": "python", "source": source})
		if err == nil || !wait(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

// awaitAnswers waits until every function answers right once.
func (l *load) awaitAnswers(ctx context.Context) error {
	for {
		problems := l.askAll(ctx)
		if len(problems) == 0 {
			return nil
		}
		if !wait(ctx, 200*time.Millisecond) {
			return errors.New("the functions do not answer before the storm: " + strings.Join(problems, "; "))
		}
	}
}

// run keeps everything going until it is stopped, and then waits for what is under
// way.
func (l *load) run(ctx context.Context) (stop func()) {
	storm, end := context.WithCancel(ctx)
	l.pulse.began = time.Now()
	var going sync.WaitGroup
	begin := func(act func(context.Context), pause time.Duration) {
		going.Go(func() {
			for wait(storm, pause) {
				act(ctx)
			}
		})
	}
	for range 3 {
		begin(l.callSomebody, 100*time.Millisecond)
	}
	begin(l.edit, 1500*time.Millisecond)
	begin(l.observe, 300*time.Millisecond)
	begin(l.createRun, 1700*time.Millisecond)
	begin(l.runOnBus, 2500*time.Millisecond)
	begin(l.passBy, 6*time.Second)
	return func() {
		end()
		going.Wait()
	}
}

// note counts an outcome.
func (l *load) note(what string, err error) {
	outcome := what + " ok"
	if err != nil {
		outcome = what + " " + class(err)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.outcomes[outcome]++
}

// blame notes an answer that should not have been given.
func (l *load) blame(format string, args ...any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

func (l *load) wrongAnswers() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.wrong)
}

func (l *load) summary(k *keeper) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(l.outcomes)) {
		parts = append(parts, fmt.Sprintf("%s %d", outcome, l.outcomes[outcome]))
	}
	return fmt.Sprintf("the storm is over: %s; %d executions\n  parts: %s\n  calls: %s",
		strings.Join(parts, ", "), l.world.ledger.total(), k, &l.pulse)
}
