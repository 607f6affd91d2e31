package capacity

import (
	"context"
	"slices"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// waiter is one create and its stand in the queue.
type waiter struct {
	ticket Ticket
	image  string
	// grant has room for the one place that a waiter is offered, so that offering
	// never blocks.
	grant chan *place
	// refusal is the daemon's last answer; nil before it was asked.
	refusal error
	// waitsSince is when the waiter queued first; deadline is when it gives up.
	waitsSince, deadline time.Time
	// waited is how long it took from then to the last place it was offered.
	waited time.Duration
	// displaced counts the sandboxes that went for it.
	displaced int
	// counted is the class under which the metrics have it.
	counted Class
}

// moment is when the waiter counts as having come.
func (w *waiter) moment() time.Time { return w.ticket.Since.Add(w.ticket.Class().handicap()) }

// place is a chance to create a sandbox: a place that became free, or a probe.
type place struct {
	probe bool
	// refused has the images for which the daemon had no place all the same, as
	// with a cap per image (contracts/iii-sandbox.md §3.1).
	refused map[string]bool
}

func newPlace() *place { return &place{refused: map[string]bool{}} }

func newProbe() *place { return &place{probe: true, refused: map[string]bool{}} }

// queue waits until the create may try, again or for the first time. The place
// that it tried in vain goes to a create of another image.
func (b *Broker) queue(ctx context.Context, w *waiter, tried *place) (*place, error) {
	if !b.join(w, tried) {
		return nil, w.noPlace()
	}
	if w.ticket.OnWait != nil {
		w.ticket.OnWait()
		w.ticket.OnWait = nil
	}
	p, err := b.await(ctx, w)
	w.waited = time.Since(w.waitsSince)
	return p, err
}

// join puts a waiter into the queue and reports whether there is a point in
// waiting.
func (b *Broker) join(w *waiter, tried *place) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if w.waitsSince.IsZero() {
		w.waitsSince, w.deadline = now, now.Add(w.ticket.Wait)
		b.metrics.waits(w)
	}
	if w.refusal != nil {
		b.metrics.refused()
		b.full[w.image] = true
	}
	if tried != nil {
		tried.refused[w.image] = true
		b.offer(tried)
	}
	b.waiting = append(b.waiting, w)
	b.makeRoom(now)
	if w.deadline.After(now) || len(w.grant) > 0 {
		return true
	}
	b.leave(w)
	b.metrics.gaveUp(w)
	return false
}

// await returns the place that the waiter is offered.
func (b *Broker) await(ctx context.Context, w *waiter) (*place, error) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case p := <-w.grant:
			return p, nil
		case <-ctx.Done():
			return b.giveUp(w)
		case <-look.C:
			if b.look(w) {
				return b.giveUp(w)
			}
		}
	}
}

// look does what nothing else brings about, and reports whether the waiter's time
// is up.
func (b *Broker) look(w *waiter) (late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.makeRoom(now)
	if now.Sub(b.probed) >= probeEvery {
		b.probed = now
		b.offer(newProbe())
	}
	return !now.Before(w.deadline)
}

// giveUp leaves the queue, unless a place was offered in the same moment.
func (b *Broker) giveUp(w *waiter) (*place, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave(w)
	select {
	case p := <-w.grant:
		return p, nil
	default:
		b.metrics.gaveUp(w)
		return nil, w.noPlace()
	}
}

func (w *waiter) noPlace() error {
	if w.refusal != nil {
		return w.refusal
	}
	return sandbox.NewCapacityError("the sandbox daemon takes no further sandbox, and others wait already")
}

// leave takes a waiter out of the queue. The caller holds the lock.
func (b *Broker) leave(w *waiter) {
	b.waiting = slices.DeleteFunc(b.waiting, func(o *waiter) bool { return o == w })
}

// offer lets the first in the queue try a place, among those whose image it has
// not refused. A place that suits nobody is forgotten. The caller holds the lock.
func (b *Broker) offer(p *place) {
	var first *waiter
	for _, w := range b.waiting {
		if !p.refused[w.image] && (first == nil || w.moment().Before(first.moment())) {
			first = w
		}
	}
	if first != nil {
		b.leave(first)
		first.grant <- p
	}
}

// makeRoom has a sandbox displaced for each waiter that asks for it, as long as
// there are idle ones. The caller holds the lock.
func (b *Broker) makeRoom(now time.Time) {
	b.displaced = slices.DeleteFunc(b.displaced, func(t time.Time) bool { return now.Sub(t) > displacing })
	if b.displacer == nil {
		return
	}
	leaving := b.displaced
	for _, w := range b.waiting {
		switch {
		case !w.ticket.Displace:
		case len(leaving) > 0:
			w.deadline = later(w.deadline, leaving[0].Add(displacing))
			leaving = leaving[1:]
		case w.displaced >= maxDisplaced:
		case !b.displacer.Displace():
			return
		default:
			b.displaced = append(b.displaced, now)
			b.metrics.displacedOne()
			w.displaced++
			// Who would not wait at all waits for a place that is about to be free.
			w.deadline = later(w.deadline, now.Add(displacing))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// waitsFor says whether a create of an image waits. The caller holds the lock.
func (b *Broker) waitsFor(image string) bool {
	return slices.ContainsFunc(b.waiting, func(w *waiter) bool { return w.image == image })
}
