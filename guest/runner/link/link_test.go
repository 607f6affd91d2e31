package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

func TestLink_manyCalls(t *testing.T) {
	l, guest := openPair(t, newTestClock(), always)
	go guest.serve()
	var callers sync.WaitGroup
	for caller := range 16 {
		callers.Go(func() {
			for i := range 100 {
				want := fmt.Sprintf("%d", 1000*caller+i)
				reply, err := l.call(t.Context(), want, []byte(`{"payload":`+want+`}`), time.Second)
				if err != nil || string(reply.Result) != want {
					t.Errorf("%s became %s, %v", want, reply.Result, err)
					return
				}
			}
		})
	}
	callers.Wait()
	if !l.idle() || len(l.tokens) != 0 {
		t.Errorf("%d calls and %d tokens are left", len(l.calls), len(l.tokens))
	}
}

func TestLink_answersComeInAnyOrder(t *testing.T) {
	l, guest := openPair(t, newTestClock(), always)
	first := begin(t.Context(), l, "", `{"payload":1}`)
	one := guest.expect(t, wire.LinkCall)
	second := begin(t.Context(), l, "", `{"payload":2}`)
	two := guest.expect(t, wire.LinkCall)
	if one.Number == two.Number {
		t.Fatal("two calls have one number")
	}
	guest.reply(two.Number, echo(two.Body))
	if got := receive(t, second); got.err != nil || string(got.reply.Result) != "2" {
		t.Errorf("the second call: %s, %v", got.reply.Result, got.err)
	}
	guest.send(wire.LinkNotRun, one.Number, nil)
	if got := receive(t, first); !isNotRun(got.err) {
		t.Errorf("a call that the guest did not run: %v", got.err)
	}
}

func TestLink_cancel(t *testing.T) {
	l, guest := openPair(t, newTestClock(), always)
	ctx, giveUp := context.WithCancel(t.Context())
	results := begin(ctx, l, "token", `{}`)
	asked := guest.expect(t, wire.LinkCall)
	giveUp()
	if got := receive(t, results); !errors.Is(got.err, context.Canceled) || !sandbox.IsUnknownOutcome(got.err) {
		t.Errorf("a caller that gave up hears %v", got.err)
	}
	ended := make(chan error, 1)
	go func() {
		known, err := l.cancel(t.Context(), "token")
		if !known {
			err = errors.New("the call is not known")
		}
		ended <- err
	}()
	if canceled := guest.expect(t, wire.LinkCancel); canceled.Number != asked.Number {
		t.Errorf("call %d was canceled, want %d", canceled.Number, asked.Number)
	}
	select {
	case err := <-ended:
		t.Fatalf("it did not wait for the guest: %v", err)
	default:
	}
	guest.reply(asked.Number, wire.Reply{Error: wire.Failf(wire.Canceled, "canceled")})
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
	if known, _ := l.cancel(t.Context(), "token"); known {
		t.Error("a call that was answered is still known")
	}
}

func TestLink_cancelIsBounded(t *testing.T) {
	l, guest := openPair(t, newTestClock(), always)
	results := begin(t.Context(), l, "token", `{}`)
	asked := guest.expect(t, wire.LinkCall)
	bounded, stop := context.WithCancel(t.Context())
	stop()
	if known, err := l.cancel(bounded, "token"); !known || !errors.Is(err, context.Canceled) {
		t.Errorf("known %t, %v", known, err)
	}
	guest.expect(t, wire.LinkCancel)
	guest.reply(asked.Number, wire.Reply{Error: wire.Failf(wire.Canceled, "canceled")})
	if got := receive(t, results); got.err != nil || got.reply.Error.Kind != wire.Canceled {
		t.Errorf("the canceled call: %+v, %v", got.reply, got.err)
	}
}

// A guest that reads nothing has the first call in the pipe, and the others behind it.
func TestLink_breaks(t *testing.T) {
	l, guest := openPair(t, newTestClock(), always)
	taken := begin(t.Context(), l, "", longBody)
	eventually(t, "writing", func() bool { _, queued := l.waiting(); pending, _ := l.waiting(); return pending == 1 && queued == 0 })
	waiting := begin(t.Context(), l, "", `{}`)
	eventually(t, "waiting", func() bool { _, queued := l.waiting(); return queued == 1 })
	_ = guest.Close()
	got := receive(t, taken)
	if !sandbox.IsUnknownOutcome(got.err) || sandbox.IsNotFound(got.err) || sandbox.IsDead(got.err) || isNotRun(got.err) {
		t.Errorf("what the guest may have: %v", got.err)
	}
	if got := receive(t, waiting); !isNotRun(got.err) {
		t.Errorf("what it cannot have: %v", got.err)
	}
	if got := receive(t, begin(t.Context(), l, "", `{}`)); !isNotRun(got.err) {
		t.Errorf("a call after the end: %v", got.err)
	}
}

func TestLink_slowGuest(t *testing.T) {
	l, guest := openPair(t, newTestClock(), always)
	var refused atomic.Int32
	var callers sync.WaitGroup
	for range maxQueuedBytes/maxRequestBytes + 8 {
		callers.Go(func() {
			if _, err := l.call(t.Context(), "", []byte(`{"payload":`+longBody[:maxRequestBytes-12]+`"}`), time.Second); isNotRun(err) {
				refused.Add(1)
			} else if err != nil {
				t.Errorf("a call that waited: %v", err)
			}
		})
	}
	eventually(t, "calls that need not wait", func() bool { return refused.Load() >= 7 })
	go guest.serve()
	callers.Wait()
	if got := refused.Load(); got > 8 {
		t.Errorf("%d calls went another way", got)
	}
	if l.queuedBytes != 0 {
		t.Errorf("%d bytes wait", l.queuedBytes)
	}
}

func TestLink_tooManyCalls(t *testing.T) {
	l, guest := openPair(t, newTestClock(), always)
	var callers sync.WaitGroup
	for range maxCalls {
		callers.Go(func() { _, _ = l.call(t.Context(), "", []byte(`{}`), time.Second) })
	}
	eventually(t, "all calls", func() bool { pending, _ := l.waiting(); return pending == maxCalls })
	if got := receive(t, begin(t.Context(), l, "", `{}`)); !isNotRun(got.err) {
		t.Errorf("a call too many: %v", got.err)
	}
	_ = guest.Close()
	callers.Wait()
}

// Nobody waits for a call whose caller gave up before it was written.
func TestLink_callsThatNobodyWaitsFor(t *testing.T) {
	l, guest := openPair(t, newTestClock(), always)
	first := begin(t.Context(), l, "", longBody)
	eventually(t, "writing", func() bool { pending, queued := l.waiting(); return pending == 1 && queued == 0 })
	ctx, giveUp := context.WithCancel(t.Context())
	abandoned := begin(ctx, l, "", `{"payload":"abandoned"}`)
	eventually(t, "waiting", func() bool { _, queued := l.waiting(); return queued == 1 })
	giveUp()
	receive(t, abandoned)
	last := begin(t.Context(), l, "", `{"payload":"last"}`)
	eventually(t, "waiting", func() bool { _, queued := l.waiting(); return queued == 2 })
	guest.reply(guest.expect(t, wire.LinkCall).Number, wire.Reply{})
	asked := guest.expect(t, wire.LinkCall)
	guest.reply(asked.Number, echo(asked.Body))
	if got := receive(t, last); string(got.reply.Result) != `"last"` {
		t.Errorf("after the first call came %s, %v", got.reply.Result, got.err)
	}
	receive(t, first)
}

func TestLink_silentGuest(t *testing.T) {
	clock := newTestClock()
	l, guest := openPair(t, clock, always)
	l.check(clock.add(time.Hour)) // Nothing is pending.
	results := begin(t.Context(), l, "", `{}`)
	guest.expect(t, wire.LinkCall)
	l.check(clock.add(quietBeforePing - 1))
	l.check(clock.add(1))
	l.check(clock.add(1)) // One ping is enough.
	guest.expect(t, wire.LinkPing)
	guest.send(wire.LinkPong, 0, nil)
	eventually(t, "the pong", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return !l.pinged })
	l.check(clock.add(quietBeforePing))
	guest.expect(t, wire.LinkPing)
	l.check(clock.add(quietBeforeBroken - quietBeforePing - 1))
	select {
	case got := <-results:
		t.Fatalf("the call has ended before the time: %v", got.err)
	default:
	}
	l.check(clock.add(1))
	if got := receive(t, results); !sandbox.IsUnknownOutcome(got.err) {
		t.Errorf("a call in a guest that is silent: %v", got.err)
	}
}

func TestLink_callThatIsNeverAnswered(t *testing.T) {
	clock := newTestClock()
	l, guest := openPair(t, clock, always)
	lost := begin(t.Context(), l, "", `{}`)
	asked := guest.expect(t, wire.LinkCall)
	clock.add(time.Second + answerMargin + 1)
	other := begin(t.Context(), l, "", `{}`)
	guest.reply(guest.expect(t, wire.LinkCall).Number, wire.Reply{}) // So that the guest is not silent.
	receive(t, other)
	l.check(clock.Now())
	if got := receive(t, lost); !sandbox.IsUnknownOutcome(got.err) {
		t.Errorf("got %v", got.err)
	}
	guest.reply(asked.Number, wire.Reply{}) // Too late does no harm.
	again := begin(t.Context(), l, "", `{}`)
	guest.reply(guest.expect(t, wire.LinkCall).Number, wire.Reply{})
	if got := receive(t, again); got.err != nil {
		t.Errorf("the next call: %v", got.err)
	}
}

func TestLink_permit(t *testing.T) {
	var denied atomic.Bool
	l, guest := openPair(t, newTestClock(), func() bool { return !denied.Load() })
	sent := begin(t.Context(), l, "", `{}`)
	guest.expect(t, wire.LinkCall)
	denied.Store(true)
	if got := receive(t, begin(t.Context(), l, "", `{}`)); !isNotRun(got.err) {
		t.Errorf("a call without a permit: %v", got.err)
	}
	if got := receive(t, sent); !sandbox.IsUnknownOutcome(got.err) {
		t.Errorf("a call that was sent before: %v", got.err)
	}
	if packet, ok := guest.next(); ok {
		t.Errorf("the guest got a packet %q", packet.Kind)
	}
}

func TestLink_hostileGuests(t *testing.T) {
	for name, attack := range map[string]func(*far, uint32){
		"what is no packet":              func(f *far, _ uint32) { _, _ = f.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")) },
		"a packet for guests":            func(f *far, _ uint32) { f.send(wire.LinkPing, 0, nil) },
		"a reply that is none":           func(f *far, number uint32) { f.send(wire.LinkReply, number, []byte("{}")) },
		"half a packet":                  func(f *far, _ uint32) { _, _ = f.Write([]byte{'P', 0}); _ = f.Close() },
		"answers without end to nothing": func(f *far, _ uint32) { flood(f, wire.LinkReply) },
		"pongs without end":              func(f *far, _ uint32) { flood(f, wire.LinkPong) },
	} {
		t.Run(name, func(t *testing.T) {
			l, guest := openPair(t, newTestClock(), always)
			results := begin(t.Context(), l, "", `{}`)
			attack(guest, guest.expect(t, wire.LinkCall).Number)
			if got := receive(t, results); !sandbox.IsUnknownOutcome(got.err) {
				t.Errorf("the call: %v", got.err)
			}
			receive(t, l.done)
		})
	}
}

func flood(f *far, kind wire.LinkKind) {
	for range maxStrays + 1 {
		f.send(kind, 1<<30, nil)
	}
}

func BenchmarkLink(b *testing.B) {
	near, guest := pair()
	var group sync.WaitGroup
	l := start(near, &group, always, time.Now, func(*link) {})
	go guest.serve()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := l.call(b.Context(), "", []byte(`{"payload":1}`), time.Second); err != nil {
				b.Error(err)
				return
			}
		}
	})
	l.fail()
	group.Wait()
}
