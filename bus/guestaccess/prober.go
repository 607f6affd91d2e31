package guestaccess

import (
	"context"
	"log/slog"
	"time"
)

const (
	// settling is how often a listener is looked at that was not found isolated
	// just after the operator connected: the engine may not have all of the
	// operator's functions yet.
	settling      = 500 * time.Millisecond
	settlingTries = 6
	// doubtInterval is how often one is looked at again that stays so.
	doubtInterval = time.Minute
)

// Prober keeps Access.Isolation true: it looks at the guests' listener whenever
// it is poked. Its fields are required.
type Prober struct {
	Access  *Access
	Service *Service
	// BusURL is the operator's own listener.
	BusURL string
	// Changed is called after each new finding.
	Changed func(context.Context)
	// Logger tells of new findings.
	Logger *slog.Logger

	poked chan struct{}
}

// NewProber completes a prober.
func NewProber(p Prober) *Prober {
	p.poked = make(chan struct{}, 1)
	return &p
}

// Poke asks for a probe soon: after a connection or when the daemon may be
// another. It never waits.
func (p *Prober) Poke() {
	select {
	case p.poked <- struct{}{}:
	default: // one is due already
	}
}

// Run probes until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	timer := time.NewTimer(doubtInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.poked:
		case <-timer.C:
			if p.Access.Isolation().Isolated {
				continue
			}
		}
		p.settle(ctx)
		timer.Reset(doubtInterval)
	}
}

// settle probes until the listener is found isolated, or it stays that it is not.
func (p *Prober) settle(ctx context.Context) {
	var found Isolation
	for try := 1; ; try++ {
		found = p.probe(ctx)
		if found.Isolated || found.Reason == reasonSameListener || try == settlingTries || !pause(ctx, settling) {
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	if p.Access.Found(found) {
		p.Logger.Info("Looked at the guests' bus listener", "isolated", found.Isolated, "reason", found.Reason)
		p.Changed(ctx)
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
