package bus

import (
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// pending are the calls of one connection that wait for an answer.
type pending struct {
	mu    sync.Mutex
	calls map[string]chan *protocol.InvocationResult
}

func newPending() *pending {
	return &pending{calls: map[string]chan *protocol.InvocationResult{}}
}

// add returns the channel that the answer will come on.
func (p *pending) add(id string) <-chan *protocol.InvocationResult {
	// One place, so that delivering never waits for a caller that gave up.
	answer := make(chan *protocol.InvocationResult, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[id] = answer
	return answer
}

func (p *pending) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, id)
}

// deliver hands an answer over once; later ones of the same id are dropped.
func (p *pending) deliver(result *protocol.InvocationResult) {
	p.mu.Lock()
	answer, ok := p.calls[result.InvocationID]
	delete(p.calls, result.InvocationID)
	p.mu.Unlock()
	if ok {
		answer <- result
	}
}
