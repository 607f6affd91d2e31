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
	pending map[types.NamespacedName]struct{}
}

// NewSource returns a source that keeps wake-ups until its controller starts.
func NewSource() *Source {
	return &Source{pending: map[types.NamespacedName]struct{}{}}
}

// Start implements source.Source.
func (s *Source) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = queue
	for key := range s.pending {
		s.add(key)
	}
	clear(s.pending)
	return nil
}

// Wake enqueues the object with this name.
func (s *Source) Wake(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil {
		s.pending[key] = struct{}{}
		return
	}
	s.add(key)
}

// priority puts what was woken before what the API reports, which has 0 or less:
// what was begun is brought to its end before more is begun. Among thousands of
// new objects each is done soon after its turn came, instead of all at the very
// end.
const priority = 10

// add enqueues; the lock is held.
func (s *Source) add(key types.NamespacedName) {
	request := reconcile.Request{NamespacedName: key}
	if queue, ok := s.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority)}, request)
		return
	}
	s.queue.Add(request)
}
