package engine

import (
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// pending are the calls that one worker is executing and somebody awaits. The
// key is the caller's id, which is used end to end (contracts/iii-bus.md §5.1).
// Each worker has its own, so that calls of different ones do not meet.
type pending struct {
	mu    sync.Mutex
	calls map[string]*call
}

func newPending() *pending { return &pending{calls: map[string]*call{}} }

// add must come before the call is sent, or a fast answer would find nothing.
// False means that the id is in use.
func (p *pending) add(k *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[k.id] != nil {
		return false
	}
	p.calls[k.id] = k
	return true
}

// take removes a call; nil if somebody else did, who then answers.
func (p *pending) take(id string) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.calls[id]
	delete(p.calls, id)
	return k
}

// forget drops a call whose caller no longer waits.
func (p *pending) forget(k *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[k.id] == k {
		delete(p.calls, k.id)
	}
}

func (p *pending) forgetCaller(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, k := range p.calls {
		if k.caller == c {
			delete(p.calls, id)
		}
	}
}

func (p *pending) takeAll() map[string]*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.calls
	p.calls = map[string]*call{}
	return all
}

func (p *pending) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

// resolve passes an executor's result to the caller. Results nobody waits for,
// or of somebody who was not asked, are dropped.
func (c *connection) resolve(m *protocol.InvocationResult) {
	if k := c.pending.take(m.InvocationID); k != nil {
		k.finish(outcome{result: m.Result, err: m.Error, traceparent: m.Traceparent, baggage: m.Baggage})
	}
}

// abandon ends the calls of a lost worker: those it executed fail, those it
// made are forgotten (§4.2).
func (e *Engine) abandon(c *connection) {
	for _, k := range c.pending.takeAll() {
		if k.caller != c {
			k.finish(stopped())
		}
	}
	for _, other := range e.registry.allWorkers() {
		other.pending.forgetCaller(c)
	}
}

// forget drops a call of the engine itself.
func (k *call) forget() {
	if k.executor != nil {
		k.executor.pending.forget(k)
	}
}

func stopped() outcome {
	return failure(protocol.CodeInvocationStopped, "Invocation stopped")
}
