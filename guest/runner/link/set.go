package link

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Opener makes the connection of a link.
type Opener interface {
	// Open returns what the guest opens its ends by, which are secrets, and the
	// operator's ends: what is written to them goes to the guest's end of calls, and
	// what is read comes from its end of replies. They outlive the context. Closing
	// them ends reading and writing at once and may be done at any time.
	Open(ctx context.Context) (calls, replies wire.LinkEnd, ends io.ReadWriteCloser, err error)
}

// Options configures a Set. Opener, Provider, Agent and Program are required.
type Options struct {
	Opener Opener
	// Provider reaches the sandboxes in which the links are opened.
	Provider sandbox.Provider
	// Agent is what is planted there, Program is guest.LinkProgram: it is asked when
	// the first link is to be opened, since it takes memory.
	Agent   guest.AgentProgram
	Program func() ([]byte, error)
	// Permit says whether this process may act on sandboxes now; nil always
	// permits. While it does not, no call is sent, and links end.
	Permit func() bool
	// Now tells the time; nil stands for time.Now.
	Now func() time.Time
	// Logger is told what becomes of links; nil is silent.
	Logger *slog.Logger
}

const (
	// maxLinks bounds the links of a Set; each is two sockets.
	maxLinks = 1024
	// maxOpenings bounds those that are opened at a time.
	maxOpenings = 4
	// tendEvery is the distance between two looks at all links.
	tendEvery = time.Second
)

// Set keeps the links to the sandboxes of one provider, one each at most. Its
// methods may be called concurrently.
type Set struct {
	options Options
	program func() (program, error)
	// limit is maxLinks, but for tests.
	limit int
	// ctx ends with the set: an opening is of no single call.
	ctx    context.Context
	cancel context.CancelFunc
	// places bound the openings.
	places chan struct{}
	tends  sync.Once
	loops  sync.WaitGroup

	mu     sync.Mutex
	boxes  map[sandbox.ID]*box
	open   int
	closed bool
}

// program is what opens links in guests, and its digest.
type program struct {
	content []byte
	digest  string
}

func (o Options) program() (program, error) {
	content, err := o.Program()
	digest := sha256.Sum256(content)
	return program{content, hex.EncodeToString(digest[:])}, err
}

// box is what is known of a sandbox.
type box struct {
	link    *link
	opening bool
	// never is true for a guest without a way to the bus.
	never    bool
	failures int
	// notBefore is when a link may be opened.
	notBefore time.Time
	// opened is when the link was, used when the last call was.
	opened, used time.Time
	burst        burst
	pace         pace
}

// NewSet returns a set without links. It must be closed.
func NewSet(options Options) *Set {
	if options.Permit == nil {
		options.Permit = func() bool { return true }
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Set{
		options: options, program: sync.OnceValues(options.program), limit: maxLinks, ctx: ctx, cancel: cancel,
		places: make(chan struct{}, maxOpenings), boxes: map[sandbox.ID]*box{},
	}
}

// maxRequestBytes bounds the requests of calls that go over a link, so that one of
// them does not keep the others waiting.
const maxRequestBytes = wire.MaxLinkBytes / 2

// Takes says whether a call may go over a link at all.
func Takes(request wire.CallRequest) bool {
	return request.Warm && len(request.Payload) <= maxRequestBytes
}

// Call calls a handler over the sandbox's link. The error is ErrNotRun if there is
// none, if it is the slower way, or if the guest has no process ready: then the
// handler has not run and will not. Any other error leaves that open.
func (s *Set) Call(ctx context.Context, id sandbox.ID, request wire.CallRequest) (wire.Reply, error) {
	l := s.pick(id)
	if l == nil || !Takes(request) {
		return wire.Reply{}, ErrNotRun
	}
	token := request.Token
	request.Token = "" // It is for executions, and nobody else's business.
	body, err := wire.EncodeCall(request)
	if err != nil || len(body) > maxRequestBytes {
		return wire.Reply{}, ErrNotRun
	}
	begun := s.options.Now()
	reply, err := l.call(ctx, token, body, time.Duration(request.TimeoutMs)*time.Millisecond)
	s.called(id, s.options.Now().Sub(begun), reply, err)
	return reply, err
}

// pick returns the link that a call is to take, nil for none.
func (s *Set) pick(id sandbox.ID) *link {
	if !s.options.Permit() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[id]
	now := s.options.Now()
	if b == nil || b.link == nil || !b.pace.usesLink(now) {
		return nil
	}
	b.used = now
	return b.link
}

func (s *Set) called(id sandbox.ID, elapsed time.Duration, reply wire.Reply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, now := s.boxes[id], s.options.Now()
	switch {
	case b == nil:
	case errors.Is(err, ErrNotRun):
		b.pace.refused(elapsed, now)
	case err == nil && isWarm(reply):
		b.pace.linked(overhead(elapsed, reply), now)
	}
}

// Executed takes in that an execution served a call that Takes allows, and how long
// it took. Frequent calls bring about a link, in the background.
func (s *Set) Executed(id sandbox.ID, elapsed time.Duration, reply wire.Reply) {
	if !isWarm(reply) {
		return // Over a link it would not have been served.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := s.options.Now()
	b := s.boxes[id]
	if b == nil {
		b = &box{}
		s.boxes[id] = b
	}
	b.used = now
	b.pace.executed(overhead(elapsed, reply))
	frequent := b.burst.add(now)
	if !frequent || b.link != nil || b.opening || b.never || now.Before(b.notBefore) {
		return
	}
	b.opening = true
	s.tends.Do(func() { s.loops.Go(s.tendAlways) })
	s.loops.Go(func() { s.openLink(id, b) })
}

// Cancel ends the call with this token if it is on the sandbox's link, and waits
// until the guest has ended it, or the context's end.
func (s *Set) Cancel(ctx context.Context, id sandbox.ID, token string) (known bool, err error) {
	s.mu.Lock()
	var l *link
	if b := s.boxes[id]; b != nil {
		l = b.link
	}
	s.mu.Unlock()
	if l == nil {
		return false, nil
	}
	return l.cancel(ctx, token)
}

// Forget takes in that a sandbox is gone.
func (s *Set) Forget(id sandbox.ID) {
	s.mu.Lock()
	var l *link
	if b := s.boxes[id]; b != nil {
		l = s.detach(b)
		delete(s.boxes, id)
	}
	s.mu.Unlock()
	if l != nil {
		l.fail()
	}
}

// detach takes a box's link from it, nil if there is none. The caller holds the lock,
// and closes the link without it.
func (s *Set) detach(b *box) *link {
	l := b.link
	if l != nil {
		b.link = nil
		s.open--
	}
	return l
}

// Open is the number of links that are open.
func (s *Set) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Close ends all links and what opens others, and waits for that. Calls that are
// under way have an unknown outcome.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	var links []*link
	for _, b := range s.boxes {
		if l := s.detach(b); l != nil {
			links = append(links, l)
		}
	}
	clear(s.boxes)
	s.mu.Unlock()
	s.cancel()
	for _, l := range links {
		l.fail()
	}
	s.loops.Wait()
}

func isWarm(reply wire.Reply) bool {
	switch reply.Start {
	case wire.StartReady, wire.StartForked, wire.StartShared:
		return true
	}
	return false
}

// overhead is what a call took beside the handler.
func overhead(elapsed time.Duration, reply wire.Reply) time.Duration {
	return elapsed - time.Duration(reply.DurationMs)*time.Millisecond
}
