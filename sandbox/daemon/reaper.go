package daemon

import (
	"context"
	"time"
)

const (
	// reapInterval is the distance of two scans (contracts/iii-sandbox.md §5).
	reapInterval = 10 * time.Second
	// busyAllowance is added to an exec's ceiling before a sandbox with a running
	// exec counts as idle all the same.
	busyAllowance = 60 * time.Second
)

// reap scans until the context ends.
func (d *Daemon) reap(ctx context.Context) {
	ticker := time.NewTicker(d.reapInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			d.reapOnce(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reapOnce removes what is idle or has ended by itself.
func (d *Daemon) reapOnce(ctx context.Context) {
	for _, e := range d.registry.takeExpired(d.config.maxExecTimeout()) {
		err := d.halt(ctx, e)
		d.logger.Info("Reaped sandbox", "image", e.image, "age", d.now().Sub(e.created).Round(time.Second), "error", err)
	}
}

// takeExpired marks and returns the sandboxes to remove. It decides under the
// lock that also admits work.
func (r *registry) takeExpired(maxExec time.Duration) []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var expired []*entry
	for _, e := range r.entries {
		if !e.stopped && (ended(e.machine) || e.idle(r.now(), maxExec)) {
			e.stopped = true
			expired = append(expired, e)
		}
	}
	return expired
}

// idle says whether nobody has used a sandbox for too long. A running program
// protects it until it must have ended long ago (§5).
func (e *entry) idle(now time.Time, maxExec time.Duration) bool {
	limit := e.idleTimeout
	if e.inFlight > 0 {
		limit += maxExec + busyAllowance
	}
	return now.Sub(e.lastUse()) > limit
}

// lastUse is the later of the last call and the guest's last use of its network.
func (e *entry) lastUse() time.Time {
	guest, tells := e.machine.(NetworkUser)
	if !tells {
		return e.lastActive
	}
	if used := guest.LastNetworkUse(); used.After(e.lastActive) {
		return used
	}
	return e.lastActive
}

func ended(machine Machine) bool {
	select {
	case <-machine.Done():
		return true
	default:
		return false
	}
}
