package link

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// patience bounds every wait of these tests; it passes only when something is
// wrong.
const patience = 30 * time.Second

// testClock is moved by the test.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func newTestClock() *testClock { return &testClock{now: start0} }

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) add(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// far is the guest's end of a link.
type far struct {
	net.Conn
	source *bufio.Reader

	mu sync.Mutex
}

// pair returns both ends of a connection in memory, which holds nothing back.
func pair() (net.Conn, *far) {
	near, there := net.Pipe()
	return near, &far{Conn: there, source: bufio.NewReader(there)}
}

// next reads a packet; ok is false once the link has ended.
func (f *far) next() (wire.LinkPacket, bool) {
	packet, err := wire.ReadLinkPacket(f.source)
	return packet, err == nil
}

// expect reads a packet, which must be of a kind.
func (f *far) expect(t *testing.T, kind wire.LinkKind) wire.LinkPacket {
	t.Helper()
	_ = f.SetReadDeadline(time.Now().Add(patience))
	packet, ok := f.next()
	if !ok || packet.Kind != kind {
		t.Fatalf("the guest got a packet %q (%t), want %q", packet.Kind, ok, kind)
	}
	return packet
}

func (f *far) send(kind wire.LinkKind, number uint32, body []byte) {
	line, err := wire.LinkPacket{Kind: kind, Number: number, Body: body}.Append(nil)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = f.Write(line) // a link that has ended takes nothing
}

func (f *far) reply(number uint32, reply wire.Reply) {
	frame, err := wire.EncodeReply(reply)
	if err != nil {
		panic(err)
	}
	f.send(wire.LinkReply, number, frame)
}

// serve answers each call with its payload, as soon as it comes, until the link's end.
func (f *far) serve() {
	for packet, ok := f.next(); ok; packet, ok = f.next() {
		switch packet.Kind {
		case wire.LinkCall:
			go f.reply(packet.Number, echo(packet.Body))
		case wire.LinkPing:
			go f.send(wire.LinkPong, 0, nil)
		}
	}
}

func echo(body []byte) wire.Reply {
	var request wire.CallRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return wire.Reply{Error: wire.Failf(wire.BadRequest, "no request")}
	}
	return wire.Reply{Result: request.Payload, Start: wire.StartReady}
}

// openPair starts a link, whose goroutines must be gone at the end of the test.
func openPair(t *testing.T, clock *testClock, permit func() bool) (*link, *far) {
	t.Helper()
	near, guest := pair()
	var group sync.WaitGroup
	l := start(near, &group, permit, clock.Now, func(*link) {})
	t.Cleanup(func() {
		l.fail()
		ended := make(chan struct{})
		go func() { group.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("goroutines of the link are left")
		}
		_ = guest.Close()
	})
	return l, guest
}

func always() bool { return true }

// result is what became of a call.
type result struct {
	reply wire.Reply
	err   error
}

// begin makes a call in the background.
func begin(ctx context.Context, l *link, token, body string) <-chan result {
	results := make(chan result, 1)
	go func() {
		reply, err := l.call(ctx, token, []byte(body), time.Second)
		results <- result{reply, err}
	}()
	return results
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: it did not come to that", what)
		}
	}
}

func (l *link) waiting() (pending, queued int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls), len(l.queue)
}

func isNotRun(err error) bool { return errors.Is(err, ErrNotRun) }

var longBody = `"` + strings.Repeat("x", maxRequestBytes-2) + `"`
