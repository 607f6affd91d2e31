package shim

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"sync"
)

// ownerAnnotation is on everything that is made for a caller: a digest of its
// worker id, which is new for every connection (contracts/iii-bus.md §2.1).
const ownerAnnotation = "sandbox.iii.dev/bus-owner"

// callerKey is the context key of the calling worker's id.
type callerKey struct{}

func withCaller(ctx context.Context, worker string) context.Context {
	return context.WithValue(ctx, callerKey{}, worker)
}

// callerOf is empty for deliveries of triggers and queues.
func callerOf(ctx context.Context) string {
	worker, _ := ctx.Value(callerKey{}).(string)
	return worker
}

// ownedBy are the annotations of an object that is made for the caller.
func ownedBy(ctx context.Context, more ...string) map[string]string {
	annotations := pairs(more)
	if worker := callerOf(ctx); worker != "" {
		annotations[ownerAnnotation] = digestOf(worker)
	}
	return annotations
}

// digestOf is for ids with enough randomness of their own: nobody finds the id
// of a digest by trying.
func digestOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return lowerBase32.EncodeToString(sum[:])[:keptHashDigits]
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// errCallerLeft ends what a worker asked for that has gone: the engine would
// drop the answer (contracts/iii-bus.md §4.3).
var errCallerLeft = errors.New("the caller disconnected")

// callers has what goes on for each worker. The zero value is ready.
type callers struct {
	mu    sync.Mutex
	calls map[string]map[*context.CancelCauseFunc]struct{}
}

// enter ties a call to its caller; leave ends that.
func (c *callers) enter(ctx context.Context) (bound context.Context, leave func()) {
	worker := callerOf(ctx)
	bound, cancel := context.WithCancelCause(ctx)
	if worker == "" {
		return bound, func() { cancel(nil) }
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]map[*context.CancelCauseFunc]struct{}{}
	}
	if c.calls[worker] == nil {
		c.calls[worker] = map[*context.CancelCauseFunc]struct{}{}
	}
	c.calls[worker][&cancel] = struct{}{}
	return bound, func() { c.leave(worker, &cancel) }
}

func (c *callers) leave(worker string, cancel *context.CancelCauseFunc) {
	(*cancel)(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls[worker], cancel)
	if len(c.calls[worker]) == 0 {
		delete(c.calls, worker)
	}
}

func (c *callers) busy(worker string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls[worker]) > 0
}

// end cancels what goes on for a worker.
func (c *callers) end(worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel := range c.calls[worker] {
		(*cancel)(errCallerLeft)
	}
}
