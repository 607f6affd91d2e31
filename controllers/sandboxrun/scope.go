package sandboxrun

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/patch"
)

// scope is one reconciliation: what was read, and what the steps decided.
type scope struct {
	obj     *sandboxv1alpha1.SandboxRun
	key     types.NamespacedName
	status  *patch.Status
	attempt attempt

	outcome    *conditions.Outcome
	afterWrite func()
	// failed is true if the run ends with this write, and not well.
	failed  bool
	requeue time.Duration
}

func (r *Reconciler) newScope(obj *sandboxv1alpha1.SandboxRun) *scope {
	return &scope{obj: obj, key: client.ObjectKeyFromObject(obj), status: patch.NewStatus(r.Client, obj)}
}

func (sc *scope) id() string { return string(sc.obj.UID) }

// fromBus says that a bus caller waits for the run: its output goes there and
// not into the object.
func (sc *scope) fromBus() bool {
	return sc.obj.Labels[sandboxv1alpha1.OriginLabel] == sandboxv1alpha1.OriginBus
}

func (sc *scope) conclude(state conditions.State, reason, message string) (bool, error) {
	sc.outcome = &conditions.Outcome{State: state, Reason: reason, Message: message}
	return true, nil
}

// seenRuns remembers which UID a name stood for, to notice that it is gone.
type seenRuns struct {
	mu   sync.Mutex
	runs map[types.NamespacedName]seenRun
}

type seenRun struct {
	uid types.UID
	// since is when this process saw the run first.
	since time.Time
}

func newSeenRuns() *seenRuns { return &seenRuns{runs: map[types.NamespacedName]seenRun{}} }

// since is when a run was seen first.
func (s *seenRuns) since(key types.NamespacedName) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[key].since
}

// has says whether a name stands for this UID.
func (s *seenRuns) has(key types.NamespacedName, uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[key].uid == uid
}

// replace notes the present UID of a name, empty for none, and returns the
// former one if it was another.
func (s *seenRuns) replace(key types.NamespacedName, present types.UID, now time.Time) (gone types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := s.runs[key].uid
	switch present {
	case former:
		return ""
	case "":
		delete(s.runs, key)
	default:
		s.runs[key] = seenRun{uid: present, since: now}
	}
	return former
}
