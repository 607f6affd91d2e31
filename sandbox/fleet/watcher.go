// Package fleet watches the back end's list of sandboxes for the whole
// operator: the daemon sends no events, so one reader compares successive lists
// and tells who is concerned.
package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// DefaultInterval is the distance of readings while there is something to watch.
const DefaultInterval = 2 * time.Second

// maxInterval is the distance of readings when nobody is interested.
const maxInterval = 10 * time.Second

// maxMissed is the number of failed readings in a row that mean that the back end
// is away although it has not left the bus. With a daemon that hangs these are two
// readings of 10 s and a pause. Sooner would help nobody: a daemon that crashes leaves the
// bus and is noticed at once, calls have deadlines of their own, and for a pause of
// some seconds, as of a loaded host, calls that wait are better than all functions
// off the bus.
const maxMissed = 2

// Lister is the part of a sandbox.Provider that is watched.
type Lister interface {
	List(ctx context.Context) ([]sandbox.Info, error)
}

// Clock tells the time; nil stands for the real one.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Watcher is the one reader of the list. Its methods may be called
// concurrently.
type Watcher struct {
	lister     Lister
	operatorID string
	interval   time.Duration
	clock      Clock
	poke       chan struct{}

	mu          sync.Mutex
	snapshot    Snapshot
	missed      int
	interested  int
	nextID      int
	subscribers map[int]func(Change)
}

// NewWatcher returns a watcher for the sandboxes whose markers name operatorID.
// It reads every interval while there are such sandboxes, somebody is interested or
// readings fail, otherwise up to every 10 s.
func NewWatcher(lister Lister, operatorID string, interval time.Duration, clock Clock) *Watcher {
	if interval <= 0 {
		interval = DefaultInterval
	}
	if clock == nil {
		clock = realClock{}
	}
	return &Watcher{
		lister: lister, operatorID: operatorID, interval: interval, clock: clock,
		poke: make(chan struct{}, 1), subscribers: map[int]func(Change){},
	}
}

// Run reads until the context ends.
func (w *Watcher) Run(ctx context.Context) error {
	pause := w.interval
	for ctx.Err() == nil {
		pause = w.nextPause(pause, w.read(ctx))
		select {
		case <-w.clock.After(pause):
		case <-w.poke:
		case <-ctx.Done():
		}
	}
	return nil
}

// Poke asks for a reading now. Readings never overlap; one that is under way is
// followed by another.
func (w *Watcher) Poke() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// Interest makes the watcher read at its full rate until the returned function
// is called, for somebody who waits for a sandbox to appear.
func (w *Watcher) Interest() (done func()) {
	w.mu.Lock()
	w.interested++
	w.mu.Unlock()
	w.Poke()
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.interested--
	})
}

// Snapshot returns the last reading.
func (w *Watcher) Snapshot() Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snapshot
}

// Subscribe calls f with every change, one at a time and after Snapshot shows
// it, until the returned function is called. f must not block.
func (w *Watcher) Subscribe(f func(Change)) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.nextID
	w.nextID++
	w.subscribers[id] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.subscribers, id)
	}
}

// read takes one reading and tells the subscribers. A failure keeps the last
// list: what cannot be asked for has not vanished.
func (w *Watcher) read(ctx context.Context) (ok bool) {
	// A sandbox that appears while the list is under way may be missing from it,
	// so the reading speaks of the time before it was asked for.
	asked := w.clock.Now()
	infos, err := w.lister.List(ctx)
	if ctx.Err() != nil {
		return false
	}
	change, subscribers := w.store(asked, infos, err)
	if change.empty() {
		return err == nil
	}
	for _, tell := range subscribers {
		tell(change)
	}
	return err == nil
}

func (w *Watcher) store(asked time.Time, infos []sandbox.Info, err error) (Change, []func(Change)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.snapshot
	next.Available, next.Err = w.answers(err), err
	if err == nil {
		next.Time, next.All, next.Ours = asked, infos, group(infos, w.operatorID)
	}
	change := diff(w.snapshot, next)
	w.snapshot = next
	subscribers := make([]func(Change), 0, len(w.subscribers))
	for _, f := range w.subscribers {
		subscribers = append(subscribers, f)
	}
	return change, subscribers
}

// answers says whether the back end counts as reachable after a reading. One
// reading that fails while it is there, by a hiccup or by taking too long, says
// nothing yet: all functions would leave the bus for it. The caller holds the
// lock.
func (w *Watcher) answers(err error) bool {
	if err == nil {
		w.missed = 0
		return true
	}
	w.missed++
	absent := sandbox.IsUnavailable(err) && !errors.Is(err, context.DeadlineExceeded)
	return w.snapshot.Available && !absent && w.missed < maxMissed
}

// nextPause is the interval while there is something to watch, and otherwise
// twice the last pause up to maxInterval. Trouble is something to watch: all
// functions are off the bus until a reading succeeds, and one that fails costs next
// to nothing.
func (w *Watcher) nextPause(last time.Duration, ok bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || w.interested > 0 || len(w.snapshot.Ours) > 0 {
		return w.interval
	}
	return max(w.interval, min(2*last, maxInterval))
}
