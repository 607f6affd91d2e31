// Package wake enqueues reconciliations from outside the API: finished
// operations, a bus that came back, a sandbox that was lost.
package wake

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Source is a controller source that anybody may fire. It never blocks and
// merges repeated wake-ups of one key, because it adds straight to the
// controller's queue.
type Source struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	pending map[types.NamespacedName]int
}

// NewSource returns a source that keeps wake-ups until its controller starts.
func NewSource() *Source {
	return &Source{pending: map[types.NamespacedName]int{}}
}

// Start implements source.Source.
func (s *Source) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = queue
	for key, priority := range s.pending {
		s.add(key, priority)
	}
	clear(s.pending)
	return nil
}

// Wake enqueues the object with this name.
func (s *Source) Wake(key types.NamespacedName) { s.wake(key, usual) }

// WakeFirst is Wake for an object that a call waits for.
func (s *Source) WakeFirst(key types.NamespacedName) { s.wake(key, first) }

func (s *Source) wake(key types.NamespacedName, priority int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil {
		s.pending[key] = max(priority, s.pending[key])
		return
	}
	s.add(key, priority)
}

const (
	// usual puts what was woken before what the API reports, which has 0 or less:
	// what was begun is brought to its end before more is begun. Among thousands of
	// new objects each is done soon after its turn came, instead of all at the very
	// end.
	usual = 10
	// first goes before that: a call waits for it.
	first = 20
)

// add enqueues; the lock is held.
func (s *Source) add(key types.NamespacedName, priority int) {
	request := reconcile.Request{NamespacedName: key}
	if queue, ok := s.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority)}, request)
		return
	}
	s.queue.Add(request)
}
