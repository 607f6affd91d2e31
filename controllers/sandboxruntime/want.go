package sandboxruntime

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// want decides how many sandboxes should exist now.
func (r *Reconciler) want(ctx context.Context, sc *scope) (bool, error) {
	spec := &sc.obj.Spec
	r.useOnChange(sc)
	r.offerForDisplacement(sc)
	r.Table.SetConcurrency(sc.runtime, concurrency(spec))
	sc.wanted = replicas(spec)
	if spec.Suspend {
		sc.wanted = 0
	}
	if sc.wanted == 0 {
		r.Table.Refuse(sc.runtime, publish.ErrRuntimeGone)
		return false, nil
	}
	if sc.idle = r.isIdle(sc); !sc.idle {
		sc.wanted = r.lessGivenUp(sc)
		sc.idle = sc.wanted == 0
		return false, nil
	}
	sc.wanted = 0
	if r.deletesWhenIdle(sc.obj) {
		err := r.Client.Delete(ctx, sc.obj, client.Preconditions{UID: &sc.obj.UID})
		sc.conclude(conditions.Progressing, sandboxv1alpha1.DeletingReason, "nobody used this runtime for its idle time")
		return true, client.IgnoreNotFound(err)
	}
	return false, nil
}

// useOnChange lets a changed spec count as a use: who scales or resumes a runtime
// expects sandboxes, however long nobody called.
func (r *Reconciler) useOnChange(sc *scope) {
	if sc.known.generation != sc.obj.Generation {
		sc.known.generation, sc.known.givenUp = sc.obj.Generation, 0
		r.Table.Use(sc.runtime)
	}
}

// lessGivenUp is the number of wanted sandboxes less those that made room for
// others. A call that waits wants them all back.
func (r *Reconciler) lessGivenUp(sc *scope) int {
	if r.Table.Activity(sc.runtime).Wanted {
		sc.known.givenUp = 0
	}
	return max(sc.wanted-sc.known.givenUp, 0)
}

// isIdle says whether nobody has called for the idle time. A runtime whose
// sandboxes have never worked is not idle, since that would make it Ready.
func (r *Reconciler) isIdle(sc *scope) bool {
	if idleAction(&sc.obj.Spec) == sandboxv1alpha1.IdleKeep || !sc.known.verified && !r.deletesWhenIdle(sc.obj) {
		return false
	}
	activity := r.Table.Activity(sc.runtime)
	if activity.InFlight > 0 || activity.Wanted {
		// Nobody tells of the end of a call, and the idle time begins with it.
		sc.requeueIn(r.idleTimeout(&sc.obj.Spec))
		return false
	}
	left := activity.LastUse.Add(r.idleTimeout(&sc.obj.Spec)).Sub(r.Clock.Now())
	if left <= 0 || r.wasIdle(sc) {
		return true
	}
	sc.requeueIn(left)
	return false
}

// wasIdle says that the runtime was stopped for idleness before and still has no
// sandbox, so that a restart of the operator does not boot it.
func (r *Reconciler) wasIdle(sc *scope) bool {
	ready := conditions.Find(sc.obj, sandboxv1alpha1.ReadyCondition)
	return ready != nil && ready.Reason == sandboxv1alpha1.SandboxRuntimeIdleReason &&
		ready.ObservedGeneration == sc.obj.Generation && len(sc.known.instances) == 0
}

func (r *Reconciler) deletesWhenIdle(obj *sandboxv1alpha1.SandboxRuntime) bool {
	return idleAction(&obj.Spec) == sandboxv1alpha1.IdleDelete &&
		obj.Labels[sandboxv1alpha1.OriginLabel] == sandboxv1alpha1.OriginBus
}

func (r *Reconciler) idleTimeout(spec *sandboxv1alpha1.SandboxRuntimeSpec) time.Duration {
	if spec.Idle == nil || spec.Idle.TimeoutSeconds == nil {
		return r.IdleTimeout
	}
	return time.Duration(*spec.Idle.TimeoutSeconds) * time.Second
}

func idleAction(spec *sandboxv1alpha1.SandboxRuntimeSpec) sandboxv1alpha1.IdleAction {
	if spec.Idle == nil || spec.Idle.Action == "" {
		return sandboxv1alpha1.IdleStop
	}
	return spec.Idle.Action
}

func replicas(spec *sandboxv1alpha1.SandboxRuntimeSpec) int {
	if spec.Replicas == nil {
		return 1
	}
	return int(*spec.Replicas)
}

func concurrency(spec *sandboxv1alpha1.SandboxRuntimeSpec) int {
	if spec.Concurrency == nil {
		return 0
	}
	return int(*spec.Concurrency)
}
