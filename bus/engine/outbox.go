package engine

import (
	"context"
	"errors"
	"sync"
)

// Bounds of an outbox. Senders that can wait do so above outboxCapacity
// (contracts/iii-bus.md §1.3); frames nobody can wait for go beyond it, up to
// the limits, where the receiver counts as stuck.
const (
	outboxCapacity   = 64
	outboxFrameLimit = 8192
	outboxByteLimit  = 4 * MaxMessageBytes
)

var (
	errOutboxClosed = errors.New("connection is closed")
	errOutboxFull   = errors.New("worker does not read what it is sent")
)

// outbox is the ordered queue of frames for one connection. Any number of
// goroutines may add, one takes.
type outbox struct {
	mu     sync.Mutex
	frames [][]byte
	bytes  int
	ended  bool
	// ready has a token when there may be something to take.
	ready chan struct{}
	// space is closed, and replaced, when senders may try again.
	space chan struct{}
}

func newOutbox() *outbox {
	return &outbox{ready: make(chan struct{}, 1), space: make(chan struct{})}
}

// push adds a frame without waiting. It is for answers and control frames,
// whose sender must not be held up by a slow receiver, and is safe under
// locks. With errOutboxFull the receiver is hopelessly behind.
func (o *outbox) push(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.ended:
		return errOutboxClosed
	case len(o.frames) >= outboxFrameLimit, o.bytes+len(frame) > outboxByteLimit:
		return errOutboxFull
	}
	o.add(frame)
	return nil
}

// send adds a frame once there is room: back-pressure on the sender.
func (o *outbox) send(ctx context.Context, frame []byte) error {
	for {
		space, err := o.trySend(frame)
		if err != nil || space == nil {
			return err
		}
		select {
		case <-space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// trySend returns the channel to wait on when there is no room.
func (o *outbox) trySend(frame []byte) (<-chan struct{}, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return nil, errOutboxClosed
	}
	if len(o.frames) >= outboxCapacity {
		return o.space, nil
	}
	o.add(frame)
	return nil, nil
}

func (o *outbox) add(frame []byte) {
	o.frames = append(o.frames, frame)
	o.bytes += len(frame)
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// take appends the frames that wait to batch, at least one and at most
// outboxCapacity; false when there will be none.
func (o *outbox) take(ctx context.Context, batch [][]byte) ([][]byte, bool) {
	for {
		batch, open := o.tryTake(batch)
		if len(batch) > 0 || !open {
			return batch, len(batch) > 0
		}
		select {
		case <-o.ready:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (o *outbox) tryTake(batch [][]byte) (taken [][]byte, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := len(o.frames)
	n := min(before, outboxCapacity)
	for _, frame := range o.frames[:n] {
		batch = append(batch, frame)
		o.bytes -= len(frame)
	}
	left := copy(o.frames, o.frames[n:])
	clear(o.frames[left:])
	o.frames = o.frames[:left]
	if before >= outboxCapacity && left < outboxCapacity {
		o.wakeSenders()
	}
	return batch, !o.ended
}

// finish accepts no more frames; what is queued still leaves.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.wakeSenders()
	o.wake()
}

func (o *outbox) wakeSenders() {
	close(o.space)
	o.space = make(chan struct{})
}
