// Package capacity shares the places of one sandbox daemon among everybody who
// makes sandboxes in it. The daemon only says no when it is full (S400 of
// contracts/iii-sandbox.md §2.2): it keeps no queue, and does not know which of
// its sandboxes could go. The broker has the queue, and has an idle sandbox
// stopped where that helps (design rule 11).
package capacity

import (
	"context"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	// probeEvery is how often the head of the queue asks the daemon although no
	// place is known to be free: strangers come and go too.
	probeEvery = 2 * time.Second
	// lookEvery is how often a waiting create looks for a sandbox to displace, since
	// one that was busy may be idle now.
	lookEvery = 500 * time.Millisecond
	// displacing is how long a sandbox that was asked to go may take.
	displacing = 10 * time.Second
	// maxDisplaced is how many sandboxes are displaced for one create. More would
	// not help: what refuses it then is a cap on its image, or strangers take every
	// place that becomes free.
	maxDisplaced = 3
)

// Displacer knows the sandboxes that nobody needs now.
type Displacer interface {
	// Displace chooses the sandbox that has been idle for longest, takes it out of
	// service and has it stopped soon, through the broker. It reports false if
	// there is none that may go. It must return at once and not use the broker.
	Displace() bool
}

// Broker is a provider whose creates queue for a place while the daemon is full,
// and are passed on at once while it is not. It sees what becomes free by its own
// Stop, so there must be one broker for all users of a daemon. Its methods may be
// called concurrently.
type Broker struct {
	sandbox.Provider
	metrics *Metrics

	mu        sync.Mutex
	displacer Displacer
	waiting   []*waiter
	// full has the images of which the last create was refused.
	full map[string]bool
	// displaced has a time for every sandbox that was asked to go and has not been
	// seen to.
	displaced []time.Time
	// probed is when the queue last asked without knowing of a place.
	probed time.Time
}

// New returns a broker for a provider; nil metrics count nothing.
func New(provider sandbox.Provider, metrics *Metrics) *Broker {
	return &Broker{Provider: provider, metrics: metrics, full: map[string]bool{}}
}

// SetDisplacer names who knows the idle sandboxes. Without one nobody is
// displaced.
func (b *Broker) SetDisplacer(d Displacer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.displacer = d
}

// Create implements sandbox.Provider. The context may carry a Ticket. A create
// that found no place in its time is the daemon's own CapacityError.
func (b *Broker) Create(ctx context.Context, req sandbox.CreateRequest) (sandbox.ID, error) {
	w := &waiter{ticket: ticketOf(ctx), image: req.Image, grant: make(chan *place, 1)}
	p, err := b.enter(ctx, w)
	for err == nil {
		var id sandbox.ID
		id, err = b.Provider.Create(ctx, req)
		if !sandbox.IsCapacity(err) {
			b.settle(w, p, err)
			if w.ticket.OnPlace != nil {
				w.ticket.OnPlace(w.waited)
			}
			return id, err
		}
		w.refusal = err
		p, err = b.queue(ctx, w, p)
	}
	return sandbox.ID{}, err
}

// Stop implements sandbox.Provider. A sandbox that is gone has left its place.
func (b *Broker) Stop(ctx context.Context, id sandbox.ID) error {
	err := b.Provider.Stop(ctx, id)
	if sandbox.IgnoreNotFound(err) == nil {
		b.freed()
	}
	return err
}

// enter lets a create try at once unless its image is known to find no place. It
// returns the place to try, which is nil if none is known of, once it may.
func (b *Broker) enter(ctx context.Context, w *waiter) (*place, error) {
	b.mu.Lock()
	if len(b.waiting) == 0 || !b.full[w.image] {
		b.mu.Unlock()
		return nil, nil
	}
	b.mu.Unlock()
	return b.queue(ctx, w, nil)
}

// settle follows a create that was not refused for want of a place.
func (b *Broker) settle(w *waiter, p *place, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.metrics.served(w)
	switch {
	case err == nil && !b.waitsFor(w.image):
		delete(b.full, w.image)
	case err != nil && p != nil:
		// Something else went wrong, and left the place to the next.
		b.offer(p)
		return
	}
	if p != nil && p.probe {
		// There was room that nobody knew of; perhaps there is more.
		b.offer(newProbe())
	}
}

// freed hands on the place of a sandbox that has gone.
func (b *Broker) freed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.displaced) > 0 {
		b.displaced = b.displaced[1:]
	}
	b.offer(newPlace())
}
