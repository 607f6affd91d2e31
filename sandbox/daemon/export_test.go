package daemon

import "time"

// Tune shortens the daemon's timers, or moves its clock, before it runs.
func (d *Daemon) Tune(reapEvery, uploadIdle time.Duration, now func() time.Time) {
	d.reapInterval, d.uploadIdle, d.now = reapEvery, uploadIdle, now
}
