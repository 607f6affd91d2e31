package sandboxfunction

import (
	"context"
	"slices"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// plantsAtOnce is how many plants are at work in one sandbox. One place of a
// sandbox is kept for upkeep; the second keeps a source that loads slowly from
// holding up all others. Without a bound, the plants of a thousand functions
// would take every place from the calls, and ask for one ten times a second.
const plantsAtOnce = 2

// gates lets a few plants at a time into each sandbox: functions for which calls
// wait first, and others in order of arrival.
type gates struct {
	// awaited returns the functions of a runtime for which calls wait.
	awaited func(publish.Runtime) map[string]bool

	mu    sync.Mutex
	gates map[sandbox.ID]*gate
}

// gate is that of one sandbox. It is forgotten with the last plant.
type gate struct {
	inside  int
	waiting []*visitor
}

// visit is where a plant wants to go, and for which function.
type visit struct {
	runtime    publish.Runtime
	id         sandbox.ID
	functionID string
}

// visitor is a plant that waits.
type visitor struct {
	visit
	admitted chan struct{}
}

func newGates(awaited func(publish.Runtime) map[string]bool) *gates {
	return &gates{awaited: awaited, gates: map[sandbox.ID]*gate{}}
}

// enter waits for a place in a sandbox, no longer than the context. The returned
// function gives it back.
func (g *gates) enter(ctx context.Context, to visit) (leave func(), err error) {
	leave = func() { g.leave(to) }
	v := g.join(to)
	if v == nil {
		return leave, nil
	}
	select {
	case <-v.admitted:
		return leave, nil
	case <-ctx.Done():
	}
	if !g.giveUp(v) {
		leave() // It was admitted in the same moment.
	}
	return nil, ctx.Err()
}

// join takes a place, or one in the queue: a visitor.
func (g *gates) join(to visit) *visitor {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, ok := g.gates[to.id]
	if !ok {
		known = &gate{}
		g.gates[to.id] = known
	}
	if known.inside < plantsAtOnce {
		known.inside++
		return nil
	}
	v := &visitor{visit: to, admitted: make(chan struct{})}
	known.waiting = append(known.waiting, v)
	return v
}

// giveUp takes a visitor out of the queue, and reports false if it is in no more.
func (g *gates) giveUp(v *visitor) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.gates[v.id]
	if known == nil {
		return false
	}
	before := len(known.waiting)
	known.waiting = slices.DeleteFunc(known.waiting, func(o *visitor) bool { return o == v })
	return len(known.waiting) < before
}

// leave hands a place to who waits.
func (g *gates) leave(from visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.gates[from.id]
	if len(known.waiting) > 0 {
		next := known.next(g.awaited(from.runtime))
		close(known.waiting[next].admitted)
		known.waiting = slices.Delete(known.waiting, next, next+1)
		return
	}
	if known.inside--; known.inside == 0 {
		delete(g.gates, from.id)
	}
}

// next is the place in the queue of who goes first.
func (g *gate) next(awaited map[string]bool) int {
	return max(0, slices.IndexFunc(g.waiting, func(v *visitor) bool { return awaited[v.functionID] }))
}
