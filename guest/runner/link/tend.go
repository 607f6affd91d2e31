package link

import (
	"time"
)

const (
	// idleAfter is how long a link, and what is known of a sandbox, outlives the
	// last call.
	idleAfter = 5 * time.Minute
	// neverAfter is the same for a sandbox that can have no link, as asking it again
	// would be in vain.
	neverAfter = 24 * time.Hour
)

func (s *Set) tendAlways() {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.tend(s.options.Now())
		case <-s.ctx.Done():
			return
		}
	}
}

// tend looks after all links: it closes those that are not used and ends those of
// guests that are silent, or all if this process may no longer act.
func (s *Set) tend(now time.Time) {
	unused, rest := s.sift(now)
	for _, l := range unused {
		l.fail()
	}
	for _, l := range rest {
		l.check(now)
	}
}

// sift forgets the sandboxes that have had no call for long.
func (s *Set) sift(now time.Time) (unused, rest []*link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, b := range s.boxes {
		switch {
		case b.link != nil && (now.Sub(b.used) < idleAfter || !b.link.idle()):
			rest = append(rest, b.link)
		case b.link != nil:
			unused = append(unused, s.detach(b))
			delete(s.boxes, id)
		case !b.opening && now.Sub(b.used) >= b.keep():
			delete(s.boxes, id)
		}
	}
	return unused, rest
}

func (b *box) keep() time.Duration {
	if b.never {
		return neverAfter
	}
	return max(idleAfter, lastBackoff)
}
