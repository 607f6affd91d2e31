package publish

import (
	"slices"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Instance is one sandbox that takes calls.
type Instance struct {
	// Name tells the instances of a runtime apart.
	Name string
	ID   sandbox.ID
	// Slots is how many programs the back end runs in it at the same time.
	Slots int
	// Template names what it was made from: a source that loads in one sandbox loads
	// in another of the same template. Empty: not known.
	Template string
}

type instanceState struct {
	Instance
	inUse int
	// reserveInUse is true while the slot for calls from inside handlers is taken.
	reserveInUse bool
	draining     bool
	planted      map[string]struct{}
	// lastUse is when the last program began or ended, or the instance came.
	lastUse time.Time
}

// SetInstance adds an instance, or updates the one of the same name. A new
// sandbox behind a known name has nothing planted.
func (t *Table) SetInstance(runtime Runtime, instance Instance) {
	if t.setInstance(runtime, instance) && t.hooks.Added != nil {
		t.hooks.Added(runtime)
	}
}

func (t *Table) setInstance(runtime Runtime, instance Instance) (added bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.runtime(runtime)
	state.wanted = false
	if known, ok := state.instances[instance.Name]; ok && known.ID == instance.ID {
		known.Slots, known.Template = instance.Slots, instance.Template
	} else {
		state.instances[instance.Name] = &instanceState{
			Instance: instance, planted: map[string]struct{}{}, lastUse: t.clock.Now(),
		}
		added = true
	}
	t.dispatch(runtime, state)
	return added
}

// takesCalls says whether there is an instance that is not on its way out. The
// caller holds the lock.
func (s *runtimeState) takesCalls() bool {
	for _, i := range s.instances {
		if !i.draining {
			return true
		}
	}
	return false
}

// RemoveInstance forgets an instance. Programs that run in it are not touched.
func (t *Table) RemoveInstance(runtime Runtime, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state, ok := t.runtimes[runtime]; ok {
		delete(state.instances, name)
	}
}

// Drain takes no new calls on an instance and says whether it is empty.
func (t *Table) Drain(runtime Runtime, name string) (empty bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	instance := t.find(runtime, name)
	if instance == nil {
		return true
	}
	instance.draining = true
	return instance.programs() == 0
}

// Resume takes calls again on an instance that was being drained.
func (t *Table) Resume(runtime Runtime, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if instance := t.find(runtime, name); instance != nil && instance.draining {
		instance.draining = false
		t.dispatch(runtime, t.runtimes[runtime])
	}
}

// find returns an instance, or nil. The caller holds the lock.
func (t *Table) find(runtime Runtime, name string) *instanceState {
	state, ok := t.runtimes[runtime]
	if !ok {
		return nil
	}
	return state.instances[name]
}

// Instances lists the instances of a runtime that take calls, by name.
func (t *Table) Instances(runtime Runtime) []Instance {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, ok := t.runtimes[runtime]
	if !ok {
		return nil
	}
	var list []Instance
	for _, i := range state.instances {
		if !i.draining {
			list = append(list, i.Instance)
		}
	}
	slices.SortFunc(list, func(a, b Instance) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// MarkPlanted records that a source is in place in an instance. It does nothing
// if the instance has been replaced in the meantime.
func (t *Table) MarkPlanted(runtime Runtime, instance Instance, digest string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.find(runtime, instance.Name); i != nil && i.ID == instance.ID {
		i.planted[digest] = struct{}{}
		t.dispatch(runtime, t.runtimes[runtime])
	}
}

// MarkUnplanted records that a source is no longer in an instance.
func (t *Table) MarkUnplanted(runtime Runtime, instance Instance, digest string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.find(runtime, instance.Name); i != nil && i.ID == instance.ID {
		delete(i.planted, digest)
	}
}

// Unplanted lists the instances of a runtime that lack a source.
func (t *Table) Unplanted(runtime Runtime, digest string) []Instance {
	list := t.Instances(runtime)
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(list, func(i Instance) bool {
		known := t.find(runtime, i.Name)
		return known == nil || known.has(digest)
	})
}

// capacity is the number of programs an instance takes: what the back end
// allows, less one place for upkeep, and no more than the runtime asks for.
func (i *instanceState) capacity(limit int) int {
	free := max(i.Slots-1, 1)
	if limit > 0 {
		return min(free, limit)
	}
	return free
}

// programs is the number of calls and runs in the instance.
func (i *instanceState) programs() int {
	if i.reserveInUse {
		return i.inUse + 1
	}
	return i.inUse
}
