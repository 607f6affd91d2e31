package sandboxruntime

import (
	"context"
	"time"
)

// answerFirst is how long the status keeps its words when a sandbox has come for
// which calls wait. Most are answered by then, on a processor that they do not share
// with the API server. Until the write the sandbox counts as one that boots: the next
// leader leaves it to the sweep, as it does before any such write.
const answerFirst = 250 * time.Millisecond

// postpone lets calls that wait be answered before the status says that their
// sandbox has come.
func (r *Reconciler) postpone(sc *scope) {
	if len(r.Table.Awaited(sc.runtime)) > 0 {
		sc.known.tellAt = r.Clock.Now().Add(answerFirst)
	}
}

// answerFirst writes nothing now if that can wait. What is announced cannot: it is
// begun once it is written.
func (r *Reconciler) answerFirst(_ context.Context, sc *scope) (bool, error) {
	left := sc.known.tellAt.Sub(r.Clock.Now())
	if left <= 0 || len(sc.afterWrite) > 0 || sc.outcome != nil {
		return false, nil
	}
	sc.quiet = true
	sc.requeueIn(left)
	return false, nil
}
