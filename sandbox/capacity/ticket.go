package capacity

import (
	"context"
	"time"
)

// Class is what a sandbox is wanted for.
type Class string

// The classes, most urgent first.
const (
	// Wake is for a runtime that calls wait for.
	Wake Class = "Wake"
	// Run is for one run in a sandbox of its own.
	Run Class = "Run"
	// Boot is for a runtime that nobody waits for yet.
	Boot Class = "Boot"
	// Refill is for a warm sandbox in a pool.
	Refill Class = "Refill"
)

// Classes lists all classes, most urgent first.
func Classes() []Class { return []Class{Wake, Run, Boot, Refill} }

// handicap is how much later than it did a create counts as having come. Order
// by that moment lets the urgent ones pass, and starves nobody: who has waited
// long enough is before everyone who comes now.
func (c Class) handicap() time.Duration {
	switch c {
	case Wake:
		return 0
	case Run:
		return 30 * time.Second
	case Boot:
		return 60 * time.Second
	default:
		return 120 * time.Second
	}
}

// Ticket says how a create stands in the queue for a place. The zero Ticket is
// that of a Refill which does not wait.
type Ticket struct {
	// Class returns what the sandbox is wanted for, as of now: calls may come to
	// a runtime whose create waits already. It must return at once and not use the
	// broker. Nil stands for Refill.
	Class func() Class
	// Since is when the sandbox was first wanted, zero for now. A create that is
	// repeated keeps its place in the queue by it.
	Since time.Time
	// Wait is how long to wait for a place at most; the context bounds it too.
	// With 0 a create that finds no place fails at once, unless Displace makes one.
	Wait time.Duration
	// Displace lets an idle sandbox of somebody else be stopped for this one.
	Displace bool
	// OnWait, if set, is called once when the create begins to wait. It must
	// return at once.
	OnWait func()
	// OnPlace, if set, is called before a create that came to the daemon returns,
	// with the time that it waited.
	OnPlace func(waited time.Duration)
}

// Always is the Class of a ticket that never changes.
func Always(c Class) func() Class { return func() Class { return c } }

type ticketKey struct{}

// WithTicket returns a context whose creates stand in the queue as the ticket
// says.
func WithTicket(ctx context.Context, t Ticket) context.Context {
	return context.WithValue(ctx, ticketKey{}, t)
}

func ticketOf(ctx context.Context) Ticket {
	t, _ := ctx.Value(ticketKey{}).(Ticket)
	if t.Class == nil {
		t.Class = Always(Refill)
	}
	if t.Since.IsZero() {
		t.Since = time.Now()
	}
	return t
}
