package shim

import (
	"context"
	"sync"
)

// keyedLocks is a lock per key that waits no longer than its context.
type keyedLocks struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	place chan struct{}
	users int
}

// lock returns the function that unlocks.
func (k *keyedLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	l := k.join(key)
	select {
	case l.place <- struct{}{}:
		return func() { <-l.place; k.leave(key, l) }, nil
	case <-ctx.Done():
		k.leave(key, l)
		return nil, context.Cause(ctx)
	}
}

func (k *keyedLocks) join(key string) *keyedLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.locks == nil {
		k.locks = map[string]*keyedLock{}
	}
	l := k.locks[key]
	if l == nil {
		l = &keyedLock{place: make(chan struct{}, 1)}
		k.locks[key] = l
	}
	l.users++
	return l
}

func (k *keyedLocks) leave(key string, l *keyedLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, key)
	}
}
