package daemon

import (
	"sync"
	"time"
)

// entry is one sandbox. Everything below `mu-guarded` belongs to the registry.
type entry struct {
	id, image string
	// name is the caller's label, nil when none was given.
	name        *string
	idleTimeout time.Duration
	created     time.Time
	machine     Machine

	// mu-guarded:
	lastActive time.Time
	inFlight   int
	// stopped is set between the decision to remove the entry and its removal.
	stopped bool
}

// registry holds the sandboxes. What it decides, it decides under one lock, so
// that bursts of creates cannot pass the cap and a program that was just
// admitted cannot lose its sandbox to the reaper (contracts/iii-sandbox.md §5).
type registry struct {
	limit     int
	execSlots int
	now       func() time.Time

	mu      sync.Mutex
	booting int
	closed  bool
	entries map[string]*entry
	// settled is signalled when a boot has ended.
	settled *sync.Cond
}

func newRegistry(limit, execSlots int, now func() time.Time) *registry {
	r := &registry{limit: limit, execSlots: execSlots, now: now, entries: map[string]*entry{}}
	r.settled = sync.NewCond(&r.mu)
	return r
}

// reserve takes a place for a sandbox that will boot. Each success is followed
// by one call of add or release.
func (r *registry) reserve() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return newFault(codeBoot, "VM boot failed: the daemon is shutting down")
	}
	if len(r.entries)+r.booting >= r.limit {
		return newFault(codeCapacity, "resource limit exceeded: %d of %d sandboxes exist or are booting",
			len(r.entries)+r.booting, r.limit)
	}
	r.booting++
	return nil
}

// release gives a reserved place back.
func (r *registry) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.booting--
	r.settled.Broadcast()
}

// add turns a reserved place into a sandbox. It reports false when the registry
// was closed meanwhile; the caller then stops the machine and releases.
func (r *registry) add(e *entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	e.created = r.now()
	e.lastActive = e.created
	r.entries[e.id] = e
	r.booting--
	r.settled.Broadcast()
	return true
}

// claimExec admits one program, in the order of checks of §3.3.
func (r *registry) claimExec(id string) (*entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, err := r.running(id)
	if err != nil {
		return nil, err
	}
	if e.inFlight >= r.execSlots {
		return nil, newFault(codeExecBusy, "sandbox %s is at its exec concurrency cap", id)
	}
	e.inFlight++
	e.lastActive = r.now()
	return e, nil
}

// releaseExec ends what claimExec began.
func (r *registry) releaseExec(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.inFlight--
	e.lastActive = r.now()
}

// claimFile admits a file operation, which resets the idle clock at its start
// only and takes no slot (§3.3, §4).
func (r *registry) claimFile(id string) (*entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, err := r.running(id)
	if err != nil {
		return nil, err
	}
	e.lastActive = r.now()
	return e, nil
}

// claimStop marks a sandbox as stopped. It reports false when somebody else is
// removing it already, which counts as success (§3.4).
func (r *registry) claimStop(id string) (*entry, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, known := r.entries[id]
	if !known {
		return nil, false, newFault(codeNotFound, "sandbox not found: %s", id)
	}
	mine := !e.stopped
	e.stopped = true
	return e, mine, nil
}

// finishStop removes the entry, or keeps it for another attempt when the
// machine could not be stopped.
func (r *registry) finishStop(e *entry, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		e.stopped = false
		return
	}
	delete(r.entries, e.id)
}

// running finds a sandbox that takes work. The lock is held.
func (r *registry) running(id string) (*entry, error) {
	e, known := r.entries[id]
	if !known {
		return nil, newFault(codeNotFound, "sandbox not found: %s", id)
	}
	if e.stopped {
		return nil, newFault(codeStopped, "sandbox already stopped: %s", id)
	}
	return e, nil
}

// close admits nothing more, waits until no boot is under way and returns what
// is left to stop.
func (r *registry) close() []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for r.booting > 0 {
		r.settled.Wait()
	}
	left := make([]*entry, 0, len(r.entries))
	for _, e := range r.entries {
		e.stopped = true
		left = append(left, e)
	}
	return left
}
