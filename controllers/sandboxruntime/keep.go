package sandboxruntime

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// keep brings the sandbox that a bus caller keeps up to date where it is, as
// after an upgrade of the operator: another sandbox would not have the caller's
// files (contracts/code-runner.md §7.3). It gets the present agent; what else
// the template says holds for sandboxes that are yet to be made.
func (r *Reconciler) keep(_ context.Context, sc *scope) (bool, error) {
	if sc.wanted == 0 || !r.deletesWhenIdle(sc.obj) {
		return false, nil
	}
	current := true
	for _, i := range sc.known.instances {
		if i.State == sandboxv1alpha1.InstanceReady && i.TemplateDigest != sc.templateDigest {
			current = r.update(sc, i) && current
		}
	}
	if !current {
		sc.conclude(conditions.Progressing, sandboxv1alpha1.ProgressingReason, "the agent in the kept sandbox is being replaced")
	}
	return !current, nil
}

// update puts the present agent into a sandbox, which takes no calls meanwhile.
// It reports whether that is done.
func (r *Reconciler) update(sc *scope, i *instance) (done bool) {
	r.Table.Drain(sc.runtime, i.Name)
	switch ended, ok := r.boots.Take(sc.operation(i)); {
	case !ok:
		r.startUpdate(sc, i)
		return false
	case ended.Err == nil:
		i.TemplateDigest = sc.templateDigest
		return true
	case sandbox.IsDead(ended.Err):
		r.memory.suspect(sc.obj.UID, i.id)
	}
	sc.requeueIn(stopRetry)
	return false
}

func (r *Reconciler) startUpdate(sc *scope, i *instance) {
	key, id := types.NamespacedName{Namespace: sc.obj.Namespace, Name: sc.obj.Name}, i.id
	r.boots.Start(sc.operation(i), func(ctx context.Context) (runner.Booted, error) {
		ctx, cancel := context.WithTimeout(ctx, bootTimeout)
		defer cancel()
		init, err := r.Runner.Prepare(ctx, id)
		return runner.Booted{ID: id, Init: init}, err
	}, func() { r.waker.Wake(key) })
}
