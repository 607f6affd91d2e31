package engine

import (
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// invocation is a call that a worker is executing and somebody awaits.
type invocation struct {
	call     *call
	executor *connection
}

// invocations is the map of calls in progress. The key is the caller's id,
// which is used end to end (contracts/iii-bus.md §5.1).
type invocations struct {
	mu      sync.Mutex
	pending map[string]*invocation
}

func newInvocations() *invocations {
	return &invocations{pending: map[string]*invocation{}}
}

// add must come before the call is sent, or a fast answer would find nothing.
// False means that the id is in use.
func (i *invocations) add(inv *invocation) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pending[inv.call.id] != nil {
		return false
	}
	i.pending[inv.call.id] = inv
	inv.executor.active.Add(1)
	return true
}

// take removes an invocation; nil if somebody else did, who then answers.
func (i *invocations) take(id string, executor *connection) *invocation {
	i.mu.Lock()
	defer i.mu.Unlock()
	inv := i.pending[id]
	if inv == nil || inv.executor != executor {
		return nil
	}
	i.remove(inv)
	return inv
}

func (i *invocations) remove(inv *invocation) {
	delete(i.pending, inv.call.id)
	inv.executor.active.Add(-1)
}

// resolve passes an executor's result to the caller. Results nobody waits for,
// or of somebody who was not asked, are dropped.
func (i *invocations) resolve(executor *connection, m *protocol.InvocationResult) {
	if inv := i.take(m.InvocationID, executor); inv != nil {
		inv.call.finish(outcome{result: m.Result, err: m.Error, traceparent: m.Traceparent, baggage: m.Baggage})
	}
}

// forget drops a call whose caller no longer waits.
func (i *invocations) forget(k *call) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if inv := i.pending[k.id]; inv != nil && inv.call == k {
		i.remove(inv)
	}
}

// abandon ends the calls of a lost worker: those it executed fail, those it
// made are forgotten (§4.2).
func (i *invocations) abandon(c *connection) {
	for _, inv := range i.takeAll(c) {
		inv.call.finish(stopped())
	}
}

func (i *invocations) takeAll(c *connection) []*invocation {
	i.mu.Lock()
	defer i.mu.Unlock()
	var executed []*invocation
	for _, inv := range i.pending {
		switch c {
		case inv.executor:
			executed = append(executed, inv)
			i.remove(inv)
		case inv.call.caller:
			i.remove(inv)
		}
	}
	return executed
}

func stopped() outcome {
	return failure(protocol.CodeInvocationStopped, "Invocation stopped")
}
