package sandboxfunction

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
)

// claim checks that the function id may be ours: it is not under the operator's
// own name, and no older object holds it. The loser takes nothing from the
// holder, also when it is deleted.
func (r *Reconciler) claim(ctx context.Context, sc *scope) (bool, error) {
	id := sc.obj.Spec.FunctionID
	if index.Prefix(id) == r.WorkerName {
		return sc.conclude(conditions.Stalled, sandboxv1alpha1.SandboxFunctionReservedReason,
			fmt.Sprintf("spec.functionID: the prefix %s:: belongs to the operator's own worker; use another one", r.WorkerName))
	}
	holder, err := r.holder(ctx, sc.obj)
	if err != nil {
		return false, err
	}
	if holder.UID == sc.obj.UID {
		return r.takeOver(sc)
	}
	r.withdraw(sc.known)
	return sc.conclude(conditions.Stalled, sandboxv1alpha1.SandboxFunctionConflictReason,
		fmt.Sprintf("spec.functionID: %s is taken by SandboxFunction %s/%s; delete that one or use another id",
			id, holder.Namespace, holder.Name))
}

// handoverPoll is how often a new holder looks whether the former one has let go.
const handoverPoll = 100 * time.Millisecond

// takeOver waits until no other function of this process uses the id: it would
// take ours off the bus when it notices that it lost.
func (r *Reconciler) takeOver(sc *scope) (bool, error) {
	if r.memory.take(sc.obj.Spec.FunctionID, sc.known) {
		return false, nil
	}
	sc.requeueIn(handoverPoll)
	return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxFunctionUnconfirmedReason,
		"the function that had this id is being taken off the bus")
}

// holder is the oldest SandboxFunction of all namespaces with the object's
// function id, for reading only.
func (r *Reconciler) holder(ctx context.Context, obj *sandboxv1alpha1.SandboxFunction) (*sandboxv1alpha1.SandboxFunction, error) {
	var list sandboxv1alpha1.SandboxFunctionList
	by := client.MatchingFields{index.FunctionByID: obj.Spec.FunctionID}
	if err := r.Client.List(ctx, &list, by, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	oldest := obj
	for i := range list.Items {
		if older(&list.Items[i], oldest) {
			oldest = &list.Items[i]
		}
	}
	return oldest, nil
}

// older orders functions of one id. Times of creation have whole seconds; within
// one, the function that has served already keeps the id.
func older(a, b *sandboxv1alpha1.SandboxFunction) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	if served := a.Status.SourceDigest != ""; served != (b.Status.SourceDigest != "") {
		return served
	}
	return a.UID < b.UID
}
