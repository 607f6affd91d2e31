package publish

import (
	"context"
	"strings"
)

// Caller finds out who made a call: the name of its worker on the bus, empty if
// that is nobody or cannot be told. It may ask the engine.
type Caller func(ctx context.Context) (worker string)

// program is a program in a slot, under the name that it has on the bus.
type program struct {
	runtime Runtime
	reserve bool
	// limited programs are of a function that bounds its calls.
	limited bool
	caller  Caller
}

// standing is where a call comes from. A call from inside a handler must never
// wait for a slot that its own ancestors hold, nor for one whose holder waits for
// a slot in turn (contracts/code-runner.md §19 W2). So there is one slot more in
// every instance, the reserve, for such calls alone, and who holds a reserve
// never waits: every reserve is free again after a while.
type standing struct {
	// nested calls come from a program in a slot.
	nested bool
	// reserved is true if any program up the chain holds a reserve.
	reserved bool
	// limited is true if any of them counts towards the limit of its function. Such
	// a call never waits for the limit of a function, since those who hold that one
	// might wait for its own.
	limited bool
	// holds are the runtimes in which the chain holds slots.
	holds map[Runtime]bool
}

// maxNesting bounds the chain of callers that is looked at.
const maxNesting = 64

// standing follows the callers of a call.
func (t *Table) standing(ctx context.Context, caller Caller) standing {
	var s standing
	for depth := 0; caller != nil && depth < maxNesting; depth++ {
		p, ok := t.program(caller(ctx))
		if !ok {
			break
		}
		s.nested = true
		s.reserved = s.reserved || p.reserve
		s.limited = s.limited || p.limited
		s.hold(p.runtime)
		caller = p.caller
	}
	return s
}

func (s *standing) hold(runtime Runtime) {
	if s.holds == nil {
		s.holds = map[Runtime]bool{}
	}
	s.holds[runtime] = true
}

// Inside says whether a call comes from a program in this runtime, directly or by
// way of others. Who made it is asked only if a program runs there at all.
func (t *Table) Inside(ctx context.Context, runtime Runtime, caller Caller) bool {
	return t.occupied(runtime) && t.standing(ctx, caller).holds[runtime]
}

func (t *Table) occupied(runtime Runtime) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, ok := t.runtimes[runtime]
	return ok && state.inFlight > 0
}

// program returns the program that is a worker of this name, with or without the
// suffix of the agent's hosts.
func (t *Table) program(worker string) (program, bool) {
	if worker == "" {
		return program{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.programs[worker]; ok {
		return p, true
	}
	end := strings.LastIndexByte(worker, ':')
	if end < 0 {
		return program{}, false
	}
	p, ok := t.programs[worker[:end]]
	return p, ok
}

// mayWait says whether a call may wait for a slot of a runtime in which none is
// free. Without a reserve there, only the end of an ancestor might free one.
func (s standing) mayWait(runtime Runtime, state *runtimeState) bool {
	if !s.nested || len(state.instances) == 0 {
		return true
	}
	return !s.reserved && (!s.holds[runtime] || state.hasReserve())
}

func (s *runtimeState) hasReserve() bool {
	for _, i := range s.instances {
		if i.reserves(s.concurrency) {
			return true
		}
	}
	return false
}

// pickReserve returns an instance whose reserve is free, or nil.
func (s *runtimeState) pickReserve(digest string) *instanceState {
	var best *instanceState
	for _, i := range s.instances {
		if i.draining || i.reserveInUse || !i.reserves(s.concurrency) || !i.has(digest) {
			continue
		}
		if best == nil || i.Name < best.Name {
			best = i
		}
	}
	return best
}

// reserves says whether an instance has a slot for calls from inside handlers.
// Where no other is left it is the one for upkeep, which can wait.
func (i *instanceState) reserves(limit int) bool { return i.Slots > i.capacity(limit) }
