package bus

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/cork"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// maxMessage is the largest message taken from the engine, in bytes: the limit
// of the engine's own library (contracts/iii-bus.md §1.3).
const maxMessage = 64 << 20

var (
	errEnded  = errors.New("the client ended")
	errSilent = errors.New("nothing arrived for too long")
	// errNotPermitted is why a process that may not be the worker has no connection.
	errNotPermitted = errors.New("this process may not be the worker now")
)

// session is one connection. Calls and answers belong to the session they
// started on and never move to another.
type session struct {
	client *Client
	conn   *websocket.Conn
	// wire is what conn writes to.
	wire *cork.Conn
	// ctx ends with the connection; its cause says why.
	ctx      context.Context
	fail     context.CancelCauseFunc
	outbox   *outbox
	handlers handlers
	pending  *pending
	draining atomic.Bool
	// heard is when something last arrived, in Unix nanoseconds.
	heard atomic.Int64

	mu sync.Mutex
	// pair is what the engine's first frame told; welcomed is closed with it.
	pair     ReattachPair
	welcomed chan struct{}
	joined   bool
}

// dialSession opens a connection. It outlives ctx, so that it can end in order.
func (c *Client) dialSession(ctx context.Context) (*session, error) {
	if !c.options.Permit() {
		return nil, errNotPermitted
	}
	life, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &session{
		client:   c,
		ctx:      life,
		fail:     fail,
		outbox:   newOutbox(fail),
		pending:  newPending(),
		welcomed: make(chan struct{}),
	}
	s.touch()
	conn, wire, err := c.dial(ctx, c.url.String(), &websocket.DialOptions{
		OnPingReceived: func(context.Context, []byte) bool { s.touch(); return true },
		OnPongReceived: func(context.Context, []byte) { s.touch() },
	})
	if err != nil {
		fail(err)
		return nil, err
	}
	s.conn, s.wire = conn, wire
	return s, nil
}

// live runs the connection to its end and reports whether the engine accepted
// this worker, and why it ended.
func (s *session) live(ctx context.Context) (joined bool, err error) {
	// One watch over the socket costs less than a context in each read and write.
	defer context.AfterFunc(s.ctx, func() { _ = s.conn.CloseNow() })()
	// Queued before anything can be answered: reattach must be the first frame.
	answer := s.announce()
	var loops sync.WaitGroup
	loops.Go(s.read)
	loops.Go(s.write)
	loops.Go(s.keepAlive)
	loops.Go(func() { s.join(answer) })

	orderly := false
	select {
	case <-ctx.Done():
		s.drain()
		orderly = s.ctx.Err() == nil
		s.close()
	case <-s.ctx.Done():
	}
	s.fail(errEnded)
	loops.Wait()
	s.handlers.close()
	_ = s.conn.CloseNow()
	cause := context.Cause(s.ctx)
	if orderly {
		cause = nil
	}
	return s.leave(cause), cause
}

// leave undoes join, and keeps the pair of a connection that was not refused.
func (s *session) leave(cause error) (joined bool) {
	c := s.client
	c.registry.detach()
	s.releaseBindings()
	joined, pair := s.hasJoined(), s.identity()
	c.update(func() {
		c.current = nil
		// A half-dead connection holds our name until its pair evicts it; that of a
		// refused one holds nothing, and the former pair is still the one to use.
		if pair != (ReattachPair{}) && !isRejected(cause) {
			c.pair = pair
		}
	})
	if joined {
		c.emit(Event{Kind: Disconnected, Err: cause})
	}
	return joined
}

// drain takes functions back and lets running handlers answer.
func (s *session) drain() {
	s.draining.Store(true)
	s.client.registry.withdraw()
	s.client.awaitHandlers(s.client.options.DrainTimeout)
	ctx, cancel := context.WithTimeout(s.ctx, s.client.options.timers.farewell)
	defer cancel()
	if err := s.outbox.flush(ctx); err != nil {
		s.client.log.Warn("Last answers were not sent", "cause", err)
	}
}

// close makes the closing handshake, bounded.
func (s *session) close() {
	bound := time.AfterFunc(s.client.options.timers.farewell, func() { s.fail(errEnded) })
	defer bound.Stop()
	// An engine that does not answer the handshake is left without it.
	_ = s.conn.Close(websocket.StatusNormalClosure, "")
}

// permitted asks Options.Permit, and ends the connection at a no.
func (s *session) permitted() bool {
	if s.client.options.Permit() {
		return true
	}
	s.fail(errNotPermitted)
	return false
}

func (s *session) touch() { s.heard.Store(time.Now().UnixNano()) }

func (s *session) identity() ReattachPair {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pair
}

func (s *session) hasJoined() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined
}

// post queues a small frame of ours without waiting.
func (s *session) post(msg protocol.Message) {
	frame, err := encode(msg)
	if err != nil {
		s.client.log.Error("Frame dropped", "type", msg.MessageType(), "cause", err)
		return
	}
	s.outbox.push(frame)
}

func isRejected(err error) bool {
	var rejected *RejectedError
	return errors.As(err, &rejected)
}
