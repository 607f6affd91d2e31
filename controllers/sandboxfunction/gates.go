package sandboxfunction

import (
	"context"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// plantsAtOnce is how many plants are at work in one sandbox. One place of a
// sandbox is kept for upkeep; the second keeps a source that loads slowly from
// holding up all others. Without a bound, the plants of a thousand functions
// would take every place from the calls, and ask for one ten times a second.
const plantsAtOnce = 2

// gates lets a few plants at a time into each sandbox, in order of arrival.
type gates struct {
	mu    sync.Mutex
	gates map[sandbox.ID]*gate
}

type gate struct {
	places chan struct{}
	// users are the plants at work or waiting; without any the gate is forgotten.
	users int
}

func newGates() *gates { return &gates{gates: map[sandbox.ID]*gate{}} }

// enter waits for a place in a sandbox, no longer than the context. The returned
// function gives it back.
func (g *gates) enter(ctx context.Context, id sandbox.ID) (leave func(), err error) {
	gate := g.join(id)
	select {
	case gate.places <- struct{}{}:
		return func() { <-gate.places; g.part(id, gate) }, nil
	case <-ctx.Done():
		g.part(id, gate)
		return nil, ctx.Err()
	}
}

func (g *gates) join(id sandbox.ID) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, ok := g.gates[id]
	if !ok {
		known = &gate{places: make(chan struct{}, plantsAtOnce)}
		g.gates[id] = known
	}
	known.users++
	return known
}

func (g *gates) part(id sandbox.ID, known *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known.users--; known.users == 0 {
		delete(g.gates, id)
	}
}
