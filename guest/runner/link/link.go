package link

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// ErrNotRun says that a call did not go over a link and will not: it is for an
// execution.
var ErrNotRun = errors.New("the call did not go over a link")

// errBroken is deliberately without what broke it: a sandbox that went during a
// call must not look like one that never took it.
var errBroken = errors.New("the link to the guest broke")

const (
	// maxCalls bounds the calls of one link at a time, as the guest does.
	maxCalls = 256
	// maxQueuedBytes bounds what waits for a guest that reads slowly.
	maxQueuedBytes = 4 << 20
	// maxWriteBytes is from when packets that wait are no longer written together.
	maxWriteBytes = 64 << 10
	// readBytes holds several small packets; there may be many links.
	readBytes = 8 << 10
	// maxStrays bounds the answers that nobody waits for.
	maxStrays = 64
	// quietBeforePing and quietBeforeBroken are how long a guest may say nothing
	// while calls are pending, generous to a guest without processor time.
	quietBeforePing   = 3 * time.Second
	quietBeforeBroken = 18 * time.Second
	// answerMargin is how long after its time a call may still be answered; a guest
	// needs 2 s at most (wire.CommandCall).
	answerMargin = 15 * time.Second
)

// link is one open connection. All its methods may be called concurrently.
type link struct {
	ends   io.ReadWriteCloser
	permit func() bool
	now    func() time.Time
	// broke is told the link's end, once.
	broke func(*link)

	wake chan struct{}
	done chan struct{}

	mu          sync.Mutex
	queue       []outgoing
	queuedBytes int
	last        uint32
	calls       map[uint32]*call
	tokens      map[string]*call
	strays      int
	// heard is when the guest last said something, or had nothing to say.
	heard  time.Time
	pinged bool
	ended  bool
}

// call is a call until it is answered, whether or not its caller still waits.
type call struct {
	// ctx is the caller's, since what nobody waits for is not written.
	ctx    context.Context
	number uint32
	token  string
	// limit is when it counts as lost.
	limit time.Time
	// sent is true once the guest may have it.
	sent bool
	// answered is closed when frame or err is set.
	answered chan struct{}
	frame    []byte
	err      error
}

type outgoing struct {
	packet wire.LinkPacket
	call   *call // nil for packets that belong to none, or that end one
}

// start takes over both ends, and closes them when the link ends. What it starts
// is counted in the group.
func start(ends io.ReadWriteCloser, group *sync.WaitGroup, permit func() bool, now func() time.Time, broke func(*link)) *link {
	l := &link{
		ends: ends, permit: permit, now: now, broke: broke,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		calls: map[uint32]*call{}, tokens: map[string]*call{},
	}
	group.Go(l.read)
	group.Go(l.write)
	return l
}

// call has the guest serve a request within the given time. Its error is ErrNotRun
// or a sandbox.UnknownOutcomeError; a caller that gives up gets the latter as well.
func (l *link) call(ctx context.Context, token string, request []byte, timeout time.Duration) (wire.Reply, error) {
	c := &call{ctx: ctx, token: token, limit: l.now().Add(timeout + answerMargin), answered: make(chan struct{})}
	if !l.enqueue(c, request) {
		return wire.Reply{}, ErrNotRun
	}
	select {
	case <-c.answered:
	case <-ctx.Done():
		return wire.Reply{}, sandbox.NewUnknownOutcomeError(ctx.Err())
	}
	if c.err != nil {
		return wire.Reply{}, c.err
	}
	reply, err := wire.DecodeReply(c.frame)
	if err != nil {
		l.fail() // This is no guest's supervisor.
		return wire.Reply{}, sandbox.NewUnknownOutcomeError(errBroken)
	}
	return reply, nil
}

func (l *link) enqueue(c *call, request []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.calls) >= maxCalls || l.queuedBytes+len(request) > maxQueuedBytes {
		return false
	}
	if len(l.calls) == 0 {
		l.heard, l.pinged = l.now(), false
	}
	for taken := true; taken; _, taken = l.calls[l.last] {
		l.last++
	}
	c.number = l.last
	l.calls[c.number] = c
	if c.token != "" {
		l.tokens[c.token] = c
	}
	l.push(outgoing{wire.LinkPacket{Kind: wire.LinkCall, Number: c.number, Body: request}, c})
	return true
}

// push must be called with the lock held.
func (l *link) push(o outgoing) {
	l.queue = append(l.queue, o)
	l.queuedBytes += len(o.packet.Body)
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// cancel ends a call and waits until the guest has answered it, or the context's
// end. It is not known if it did not go over this link, or has been answered.
func (l *link) cancel(ctx context.Context, token string) (known bool, err error) {
	l.mu.Lock()
	c, known := l.tokens[token]
	if known {
		l.push(outgoing{packet: wire.LinkPacket{Kind: wire.LinkCancel, Number: c.number}})
	}
	l.mu.Unlock()
	if !known {
		return false, nil
	}
	select {
	case <-c.answered: // A guest cancels the calls of a link that broke by itself.
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// idle says whether no call is pending.
func (l *link) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) == 0
}

// check pings a guest that has been quiet for long, and ends the link of one that
// is silent. It forgets calls that are never answered.
func (l *link) check(now time.Time) {
	if !l.permit() || l.silent(now) {
		l.fail()
	}
}

func (l *link) silent(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if now.After(c.limit) {
			l.answer(c, nil, sandbox.NewUnknownOutcomeError(errBroken))
		}
	}
	quiet := now.Sub(l.heard)
	if l.ended || len(l.calls) == 0 || quiet < quietBeforePing {
		return false
	}
	if !l.pinged {
		l.pinged = true
		l.push(outgoing{packet: wire.LinkPacket{Kind: wire.LinkPing}})
	}
	return quiet >= quietBeforeBroken
}

// answer must be called with the lock held.
func (l *link) answer(c *call, frame []byte, err error) {
	delete(l.calls, c.number)
	if l.tokens[c.token] == c {
		delete(l.tokens, c.token)
	}
	c.frame, c.err = frame, err
	close(c.answered)
}

// fail ends the link. Of its calls those that the guest may have are unknown, the
// others have not run.
func (l *link) fail() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended, l.queue = true, nil
	for _, c := range l.calls {
		if c.sent {
			l.answer(c, nil, sandbox.NewUnknownOutcomeError(errBroken))
		} else {
			l.answer(c, nil, ErrNotRun)
		}
	}
	l.mu.Unlock()
	close(l.done)
	_ = l.ends.Close() // it may be broken
	l.broke(l)
}
