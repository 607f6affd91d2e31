package sandboxfunction

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

const (
	// progressGrace is how long a function that is at rest, or new, may be at work
	// without a word: most are done by then. It saves two writes of each function when
	// it is made, and all of them when the operator starts again.
	progressGrace = 5 * time.Second
	// progressRefresh is how long progress that was told of may go on under the same
	// words.
	progressRefresh = 30 * time.Second
)

// untold says that the outcome is progress that need not be written yet, and has
// the function looked at when it must be. A new object is known as one in progress
// by its observed generation. It comes before summarize, while the object says what
// users see.
func (r *Reconciler) untold(sc *scope, o conditions.Outcome) bool {
	grace := graceOf(conditions.Find(sc.obj, sandboxv1alpha1.ReadyCondition), sc.obj.Generation)
	if o.State != conditions.Progressing || grace == 0 {
		sc.known.untoldSince = time.Time{}
		return false
	}
	now := r.Clock.Now()
	if sc.known.untoldSince.IsZero() {
		sc.known.untoldSince = now
	}
	left := grace - now.Sub(sc.known.untoldSince)
	if left <= 0 {
		sc.known.untoldSince = time.Time{}
		return false
	}
	sc.requeueIn(left)
	return true
}

// graceOf is how long progress may go untold after the Ready condition that users
// see. Who reads of a failure, or of another generation, hears at once that things
// have moved on.
func graceOf(told *metav1.Condition, generation int64) time.Duration {
	switch {
	case told == nil:
		return progressGrace
	case told.ObservedGeneration != generation || told.Status == metav1.ConditionFalse:
		return 0
	case told.Status == metav1.ConditionTrue:
		return progressGrace
	default:
		return progressRefresh
	}
}
