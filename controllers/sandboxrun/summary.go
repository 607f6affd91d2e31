package sandboxrun

import (
	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// summarize writes the conditions. A step that says nothing leaves a finished
// run as it is.
func (r *Reconciler) summarize(sc *scope, err error) {
	if sc.obj.Status.Phase == "" {
		sc.obj.Status.Phase = sandboxv1alpha1.RunPending
	}
	switch {
	case sc.outcome == nil && sc.obj.IsFinished() && sc.obj.Status.ObservedGeneration != sc.obj.Generation:
		restate(sc.obj)
	case sc.outcome != nil:
		conditions.Summarize(sc.obj, *sc.outcome)
	case err != nil && !sc.obj.IsFinished():
		conditions.Summarize(sc.obj, conditions.Outcome{
			State: conditions.Progressing, Reason: sandboxv1alpha1.ProgressingReason,
			Message: "the last attempt failed and is repeated",
		})
	}
}

// restate says of the present generation what was said of a former one: cancelling
// a run that has ended changes nothing, and tools that compare generations would
// wait for ever.
func restate(run *sandboxv1alpha1.SandboxRun) {
	for i := range run.Status.Conditions {
		run.Status.Conditions[i].ObservedGeneration = run.Generation
	}
	run.Status.ObservedGeneration = run.Generation
}
