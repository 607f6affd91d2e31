package sandboxruntime

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// instance is what this process knows of one sandbox beyond its status.
type instance struct {
	sandboxv1alpha1.InstanceStatus
	id    sandbox.ID
	nonce string
	// since is when the sandbox was known to exist, on this process's clock.
	since time.Time
	// touched is when its lease was last renewed.
	touched time.Time
	// trigger is what it was booted for; see scope.trigger.
	trigger string
	// retired is true if its boot was cancelled.
	retired bool
	// surge is true if it was booted beside the one that it replaces.
	surge bool
	// waits is true once its boot has had to wait for a place in the daemon.
	waits atomic.Bool
	// stopAfter keeps a stop that failed from being repeated before that time.
	stopAfter time.Time
}

// memory holds the instances of all runtimes. Once a runtime has been seen, it
// and not the cached status says which instances there are: the cache may be
// older than our own last write.
type memory struct {
	mu       sync.Mutex
	runtimes map[types.UID]*runtimeMemory
	// suspects are instances that a call found gone or dead, displaced those that
	// shall make room for others.
	suspects, displaced marks
	// offers are the runtimes whose sandboxes may make room.
	offers map[types.UID]publish.Runtime
	// first is when any runtime was first looked at.
	first time.Time
}

// marks are sandboxes of some runtimes.
type marks map[types.UID]map[sandbox.ID]bool

func (m marks) add(uid types.UID, id sandbox.ID) {
	if m[uid] == nil {
		m[uid] = map[sandbox.ID]bool{}
	}
	m[uid][id] = true
}

func (m marks) take(uid types.UID) map[sandbox.ID]bool {
	taken := m[uid]
	delete(m, uid)
	return taken
}

type runtimeMemory struct {
	// written is the resource version that our last write made.
	written   string
	runtime   publish.Runtime
	instances []*instance
	// failure is the last failed boot, nil once one succeeded.
	failure *failedBoot
	// shortSince is when a sandbox was first missing, zero while none is.
	shortSince time.Time
	// cramped is the trigger of a roll for which the daemon had no room for one
	// more; see scope.trigger.
	cramped string
	// givenUp is how many sandboxes made room for others and come back when a call
	// waits.
	givenUp int
	crashes crashes
	// daemonWasAway is true if the daemon could not be reached at the last look.
	daemonWasAway bool
	// verified is true once any sandbox of this runtime has been ready.
	verified bool
	// lost is true once a sandbox that took calls has gone by itself.
	lost bool
	// drained is when the deletion of a kept runtime last found a program that goes
	// on to its end, or began.
	drained time.Time
	// tellAt is when the status says that a sandbox has come for which calls waited.
	tellAt time.Time
	// unusedSince is when an implicit runtime was first found without functions,
	// zero while it has some.
	unusedSince time.Time
	// generation is the last one that was looked at.
	generation int64
}

func newMemory() *memory {
	return &memory{
		runtimes: map[types.UID]*runtimeMemory{},
		suspects: marks{}, displaced: marks{}, offers: map[types.UID]publish.Runtime{},
	}
}

func (m *memory) suspect(uid types.UID, id sandbox.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runtimes[uid] == nil {
		return // It has gone meanwhile, and nobody would ask.
	}
	m.suspects.add(uid, id)
}

// takeSuspects returns the suspects of a runtime and forgets them.
func (m *memory) takeSuspects(uid types.UID) map[sandbox.ID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.suspects.take(uid)
}

// get returns the memory of a runtime, or nil if it was not seen yet. Only the
// reconciliation of that runtime uses what it points to, and there is one at a
// time.
func (m *memory) get(uid types.UID) *runtimeMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runtimes[uid]
}

func (m *memory) put(uid types.UID, known *runtimeMemory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runtimes[uid] = known
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(uid)
}

// drop forgets a runtime. The caller holds the lock.
func (m *memory) drop(uid types.UID) {
	delete(m.runtimes, uid)
	delete(m.suspects, uid)
	delete(m.displaced, uid)
	delete(m.offers, uid)
}

// takeOthers forgets the runtimes of this name that have another UID, and
// returns them.
func (m *memory) takeOthers(key types.NamespacedName, uid types.UID) []*runtimeMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	var others []*runtimeMemory
	for other, known := range m.runtimes {
		if other != uid && known.runtime.Namespace == key.Namespace && known.runtime.Name == key.Name {
			others = append(others, known)
			m.drop(other)
		}
	}
	return others
}

// firstLook returns when it was first called.
func (m *memory) firstLook(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first.IsZero() {
		m.first = now
	}
	return m.first
}

// list returns the instances in a slice of its own, for loops that remove some.
func (r *runtimeMemory) list() []*instance { return slices.Clone(r.instances) }

func (r *runtimeMemory) remove(name string) {
	r.instances = slices.DeleteFunc(r.instances, func(i *instance) bool { return i.Name == name })
}

// statuses returns the instances as the status shows them, by ordinal.
func (r *runtimeMemory) statuses() []sandboxv1alpha1.InstanceStatus {
	list := make([]sandboxv1alpha1.InstanceStatus, 0, len(r.instances))
	for _, i := range r.instances {
		list = append(list, i.InstanceStatus)
	}
	slices.SortFunc(list, func(a, b sandboxv1alpha1.InstanceStatus) int { return byOrdinal(a.Name, b.Name) })
	return list
}

// waits says whether a boot waits for a place in the daemon.
func (r *runtimeMemory) waits() bool {
	return slices.ContainsFunc(r.instances, func(i *instance) bool {
		return i.State == sandboxv1alpha1.InstanceBooting && i.waits.Load()
	})
}

func (r *runtimeMemory) ready() int {
	n := 0
	for _, i := range r.instances {
		if i.State == sandboxv1alpha1.InstanceReady {
			n++
		}
	}
	return n
}

// nonceDigest is what the status shows of an attempt.
func nonceDigest(nonce string) string {
	sum := sha256.Sum256([]byte(nonce))
	return hex.EncodeToString(sum[:])
}
