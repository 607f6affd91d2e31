package sandboxfunction

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// functionMemory is what this process knows of one function beyond its status.
type functionMemory struct {
	key types.NamespacedName
	uid types.UID
	// former is another function that had this name before, nil for none. It, and
	// holds and prefix, belong to the lock of the memory.
	former *functionMemory
	// holds is the function id, and prefix the id prefix, that the function uses now,
	// empty for none: what it lets go is found without a search.
	holds, prefix string
	// functionID is set while the function is, or may be, registered.
	functionID string
	// paused is how a function was bound that is off the bus for a while, nil for one
	// that is not.
	paused *publish.Binding
	// confirmed is what the engine last said.
	confirmed *confirmation
	// triggerIDs are the bindings that this process made.
	triggerIDs map[string]bool
	// pendingSince is when a trigger was first found missing, zero if none is.
	pendingSince time.Time
	// failed is a source that cannot be planted, and why.
	failed *plantFailure
	// slow is a source that took too long to load.
	slow doubt
	// checked is the source and handler that a sandbox proved good, and checkedIn the
	// template of that sandbox.
	checked   check
	checkedIn string
	// schemas are those of the generation that was looked at last.
	schemas *schemas
	// plants are those under way, with the keys of their operations, nil if there are
	// none: the empty maps of thousands of functions take more than all else here.
	plants map[planting]string
	// plantAfter is when the next plant may start, after one that failed for no
	// fault of the source.
	plantAfter time.Time
	// untoldSince is since when the function has been at work without the status
	// saying so, zero if it is not.
	untoldSince time.Time
	// written is the resource version of our last write.
	written string
	// announced is the last event.
	announced announcement
}

// announcement is what an event says.
type announcement struct{ reason, message string }

// check is what a plant proves: that a source loads and has a handler.
type check struct{ digest, handler string }

// planting is one plant. It names the sandbox and not just its place, which
// another may have taken when the plant ends.
type planting struct {
	check
	runtime  publish.Runtime
	instance string
	id       sandbox.ID
	template string
}

type plantFailure struct {
	check
	failure *wire.Failure
	// message is what the status says of it, empty until it has been made.
	message string
}

// doubt counts the plants of a source that ran out of time, which a busy machine
// may have caused.
type doubt struct {
	check
	times int
}

// memory holds the functions of this process.
type memory struct {
	mu sync.Mutex
	// functions are those of each name, the latest one first: more than one if an
	// object was replaced.
	functions map[types.NamespacedName]*functionMemory
	// holders are the functions that use a function id now, so that a new holder
	// begins only after the former one has let go.
	holders map[string]*functionMemory
	// prefixes are the namespaces that use an id prefix.
	prefixes map[string]*prefixHold
	// triggers name the functions of the triggers that this process binds, and
	// refusals hold what providers said of those they refused, by trigger id.
	triggers map[string]types.NamespacedName
	refusals map[string]string
}

func newMemory() *memory {
	return &memory{
		functions: map[types.NamespacedName]*functionMemory{},
		holders:   map[string]*functionMemory{},
		prefixes:  map[string]*prefixHold{},
		triggers:  map[string]types.NamespacedName{}, refusals: map[string]string{},
	}
}

// bindTrigger notes that a trigger is of the function with this name.
func (m *memory) bindTrigger(triggerID string, key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.triggers[triggerID] = key
}

// refuse notes why a trigger was refused, and returns the name of its function.
// It reports false for a trigger that was taken back meanwhile.
func (m *memory) refuse(triggerID, reason string) (types.NamespacedName, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, ok := m.triggers[triggerID]
	if ok {
		m.refusals[triggerID] = reason
	}
	return key, ok
}

func (m *memory) refusal(triggerID string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refusals[triggerID]
}

func (m *memory) forgetRefusal(triggerID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.refusals, triggerID)
}

func (m *memory) forgetTrigger(triggerID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.triggers, triggerID)
	delete(m.refusals, triggerID)
}

// get returns the memory of a function and makes it if need be. Only the
// reconciliation of that function uses what it points to, and there is one at a
// time.
func (m *memory) get(obj *sandboxv1alpha1.SandboxFunction) *functionMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	known := m.find(key, obj.UID)
	if known == nil {
		known = &functionMemory{
			key: key, uid: obj.UID, former: m.functions[key], announced: announcedBefore(obj),
		}
		m.functions[key] = known
	}
	return known
}

// find returns the memory of a function, or nil. The caller holds the lock.
func (m *memory) find(key types.NamespacedName, uid types.UID) *functionMemory {
	known := m.functions[key]
	for known != nil && known.uid != uid {
		known = known.former
	}
	return known
}

func (m *memory) has(key types.NamespacedName, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(key, uid) != nil
}

// forget drops a function; doing it again does nothing.
func (m *memory) forget(known *functionMemory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	latest := m.functions[known.key]
	switch {
	case latest == nil:
	case latest != known:
		for f := latest; f != nil; f = f.former {
			if f.former == known {
				f.former = known.former
			}
		}
	case known.former == nil:
		delete(m.functions, known.key)
	default:
		m.functions[known.key] = known.former
	}
}

// take makes a function the holder of its id, unless another still is.
func (m *memory) take(functionID string, known *functionMemory) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if holder, taken := m.holders[functionID]; taken {
		return holder == known
	}
	m.holders[functionID], known.holds = known, functionID
	return true
}

// letGo is the end of take. An object never changes its function id.
func (m *memory) letGo(known *functionMemory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known.holds == "" {
		return
	}
	delete(m.holders, known.holds)
	known.holds = ""
}

// others returns what is known of functions that had this name before.
func (m *memory) others(key types.NamespacedName, present types.UID) []*functionMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	var others []*functionMemory
	for known := m.functions[key]; known != nil; known = known.former {
		if known.uid != present {
			others = append(others, known)
		}
	}
	return others
}
