package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	settlePoll = 500 * time.Millisecond
	// restTime is how long everything must stay as it is: longer than the sweep
	// needs to destroy what it does not know.
	restTime = 8 * time.Second
	// lastAsks is how often every function must answer at the end.
	lastAsks = 5
)

// judge waits until everything is as it must be, and says what is not.
func judge(ctx context.Context, w *world, l *load, r *report, patience time.Duration) {
	settling, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.errorRow("every part runs again", w.keeper.awaitAll(settling))
	w.removeStrangers(settling)
	r.row("edits are taken after the storm", untilNone(settling, l.finalEdits))
	began := time.Now()
	r.row("objects, sandboxes, functions on the bus and status agree", untilNone(settling, w.disagreements))
	r.row("every function answers with its own newest code", untilNone(settling, l.askAll))
	r.say("settled after %.0f s", time.Since(began).Seconds())
	r.row("and it stays so", l.rest(ctx))
	r.row("no answer was that of another call, or of replaced code, and no error blames the code", l.wrongAnswers())
	r.row("no call and no run was executed twice", w.ledger.repeated())
	r.row("every run ended once, and as it was executed", l.falseRuns(ctx))
	removing, stop := context.WithTimeout(ctx, patience)
	defer stop()
	r.row("deleting everything leaves nothing", w.deleteAll(removing))
}

// untilNone asks until there are no problems, and returns the last ones. A context
// that ended stops the asking, not the last answer.
func untilNone(ctx context.Context, ask func(context.Context) []string) []string {
	for {
		if problems := ask(context.WithoutCancel(ctx)); len(problems) == 0 || !wait(ctx, settlePoll) {
			return problems
		}
	}
}

func (w *world) disagreements(ctx context.Context) []string {
	now, err := w.read(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	return disagreements(now)
}

// rest looks on for a while, while every function is called some more times.
func (l *load) rest(ctx context.Context) []string {
	for until := time.Now().Add(restTime); time.Now().Before(until) && wait(ctx, settlePoll); {
		if problems := l.world.disagreements(ctx); len(problems) > 0 {
			return problems
		}
	}
	for range lastAsks {
		if problems := l.askAll(ctx); len(problems) > 0 {
			return problems
		}
	}
	return nil
}

// honest are the reasons with which a run may fail in a storm.
var honest = []string{
	v1alpha1.SandboxRunInterruptedReason, v1alpha1.SandboxRunTimeoutReason, v1alpha1.SandboxRunSandboxFailedReason, v1alpha1.CapacityReason,
}

// falseRuns says which runs say something else than what was executed.
func (l *load) falseRuns(ctx context.Context) []string {
	var runs v1alpha1.SandboxRunList
	if err := l.world.kube.List(ctx, &runs, client.InNamespace(chaosNamespace)); err != nil {
		return []string{err.Error()}
	}
	var problems []string
	for i := range runs.Items {
		problems = append(problems, falseRun(&runs.Items[i], l.world.ledger.count))
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, token := range l.busRuns {
		if count := l.world.ledger.count(token); count != 1 {
			problems = append(problems, fmt.Sprintf("the run of %s was answered, and executed %d times", token, count))
		}
	}
	return nonEmpty(problems)
}

func falseRun(run *v1alpha1.SandboxRun, executions func(token string) int) string {
	token := tokenPattern.FindString(*run.Spec.Source.Inline)
	count := executions(token)
	reason := ""
	for _, c := range run.Status.Conditions {
		if c.Type == v1alpha1.SandboxRunFailedCondition {
			reason = c.Reason
		}
	}
	switch {
	case run.Status.Phase == v1alpha1.RunSucceeded && (count != 1 || run.Status.Stdout != token):
		return fmt.Sprintf("%s succeeded with %q, executed %d times", run.Name, run.Status.Stdout, count)
	case run.Status.Phase == v1alpha1.RunFailed && !slices.Contains(honest, reason):
		return fmt.Sprintf("%s failed with %s, exit code %v", run.Name, reason, run.Status.ExitCode)
	}
	return ""
}

// deleteAll deletes what the storm went over and waits until nothing of it is there.
func (w *world) deleteAll(ctx context.Context) []string {
	for _, kind := range everything {
		for _, namespace := range []string{chaosNamespace, w.stack.RunsNamespace()} {
			if err := w.kube.DeleteAllOf(ctx, kind, client.InNamespace(namespace)); err != nil {
				return []string{err.Error()}
			}
		}
	}
	if problems := untilNone(ctx, w.remains); len(problems) > 0 {
		return problems
	}
	namespace := &corev1.Namespace{}
	namespace.Name = chaosNamespace
	if err := w.kube.Delete(ctx, namespace); err != nil {
		return []string{err.Error()}
	}
	return untilNone(ctx, func(ctx context.Context) []string {
		if err := w.kube.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); client.IgnoreNotFound(err) != nil || err == nil {
			return []string{fmt.Sprintf("the namespace is still there (%v)", err)}
		}
		return nil
	})
}

func (w *world) remains(ctx context.Context) []string {
	now, err := w.read(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var problems []string
	for what, count := range map[string]int{
		"functions": len(now.functions), "runtimes": len(now.runtimes), "runs": len(now.runs), "sandboxes": len(now.sandboxes),
	} {
		if count > 0 {
			problems = append(problems, fmt.Sprintf("%d %s are left", count, what))
		}
	}
	if len(now.published) > 0 {
		problems = append(problems, "on the bus: "+strings.Join(now.published, ", "))
	}
	return problems
}
