// Package wake enqueues reconciliations from outside the API: finished
// operations, a bus that came back, a sandbox that was lost.
package wake

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
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
		queue.Add(reconcile.Request{NamespacedName: key})
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
	s.queue.Add(reconcile.Request{NamespacedName: key})
}
