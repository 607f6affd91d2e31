package bus

import (
	"context"
	"errors"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

const (
	// maxFrame is the largest frame the engine takes (contracts/iii-bus.md §1.3).
	maxFrame = 16 << 20
	// maxWaitingFrames bounds the calls and answers that wait for the writer, like
	// the engine's own queue (§12).
	maxWaitingFrames = 64
	// maxQueuedFrames bounds everything, including what may not wait; a peer so
	// far behind is lost.
	maxQueuedFrames = 1 << 16
)

var errOverflow = errors.New("the engine does not read: outbound queue is full")

// encode is protocol.Encode with the size limit.
func encode(msg protocol.Message) ([]byte, error) { return bounded(protocol.Encode(msg)) }

func bounded(frame []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if len(frame) > maxFrame {
		return nil, &TooLargeError{Size: len(frame), Limit: maxFrame}
	}
	return frame, nil
}

// outbox is a connection's queue of frames, in the order they will be sent.
type outbox struct {
	mu     sync.Mutex
	queue  []parcel
	wake   chan struct{}
	places chan struct{}
	// fail ends the connection.
	fail func(error)
}

type parcel struct {
	frame []byte
	// caller is nil, or a context whose end makes the frame pointless.
	caller context.Context
	// placed parcels hold one of the places.
	placed bool
	// written is closed when the writer has come to this parcel.
	written chan struct{}
}

func newOutbox(fail func(error)) *outbox {
	return &outbox{
		wake:   make(chan struct{}, 1),
		places: make(chan struct{}, maxWaitingFrames),
		fail:   fail,
	}
}

// push queues a frame without waiting. It is for the reader, which must not
// block, and for registrations, whose number is small.
func (o *outbox) push(frame []byte) { o.add(parcel{frame: frame}) }

// send waits for a place and queues a frame; it is dropped unsent if caller
// ends first. over is closed when the connection is gone.
func (o *outbox) send(caller context.Context, over <-chan struct{}, frame []byte) error {
	if err := o.reserve(caller, over); err != nil {
		return err
	}
	o.fill(caller, frame)
	return nil
}

// reserve waits for a place. A connection that went before is ErrNotConnected,
// for it is certain that the frame was not sent.
func (o *outbox) reserve(ctx context.Context, over <-chan struct{}) error {
	select {
	case <-over:
		return ErrNotConnected
	default:
	}
	select {
	case o.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-over:
		return ErrNotConnected
	}
}

// fill uses a reserved place.
func (o *outbox) fill(caller context.Context, frame []byte) {
	o.add(parcel{frame: frame, caller: caller, placed: true})
}

// flush waits until everything queued before was written.
func (o *outbox) flush(ctx context.Context) error {
	written := make(chan struct{})
	o.add(parcel{written: written})
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *outbox) add(p parcel) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) >= maxQueuedFrames {
		o.fail(errOverflow)
		return
	}
	o.queue = append(o.queue, p)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// worthSending is false for a mark and for a frame whose caller has gone.
func (p parcel) worthSending() bool {
	return p.written == nil && (p.caller == nil || p.caller.Err() == nil)
}

// next waits for parcels and appends those that are there to batch, at most
// maxWaitingFrames.
func (o *outbox) next(ctx context.Context, batch []parcel) ([]parcel, error) {
	for {
		if batch = o.pop(batch); len(batch) > 0 {
			return batch, nil
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (o *outbox) pop(batch []parcel) []parcel {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.queue), maxWaitingFrames)
	for _, p := range o.queue[:n] {
		if p.placed {
			<-o.places
		}
		batch = append(batch, p)
	}
	left := copy(o.queue, o.queue[n:])
	clear(o.queue[left:])
	o.queue = o.queue[:left]
	return batch
}
