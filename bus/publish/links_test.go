package publish

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner/link"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// pipes makes connections in memory; ends are the guest's.
type pipes struct{ ends chan net.Conn }

func (p pipes) Open(context.Context) (calls, replies wire.LinkEnd, ends io.ReadWriteCloser, err error) {
	near, there := net.Pipe()
	p.ends <- there
	return calls, replies, near, nil
}

// newLinkedCallWorld has a link to its one sandbox, whose end the test has.
func newLinkedCallWorld(t testing.TB) (*callWorld, net.Conn) {
	t.Helper()
	w, p := newCallWorld(t), pipes{make(chan net.Conn, 1)}
	w.Guest.Warm = true
	w.Guest.Links = link.NewSet(link.Options{
		Opener: p, Provider: w.provider, Agent: guest.AgentProgram{Digest: strings.Repeat("a", 64)}, Program: func() ([]byte, error) { return []byte("link"), nil },
	})
	t.Cleanup(w.Guest.Links.Close)
	w.boot("0")
	w.answers(t, func(context.Context, wire.CallRequest) (wire.Reply, error) {
		return wire.Reply{Result: []byte(`"executed"`), Start: wire.StartReady}, nil
	})
	for range 8 {
		if _, err := w.call(t, `{}`); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a link", func() bool { return w.Guest.Links.Open() == 1 })
	return w, <-p.ends
}

// The handler may have run, so it is not called again; its sandbox may be well.
func TestServe_linkThatBreaks(t *testing.T) {
	w, end := newLinkedCallWorld(t)
	before := len(w.provider.Calls(fake.Exec))
	go func() {
		_, _ = wire.ReadLinkPacket(bufio.NewReader(end))
		_ = end.Close()
	}()
	_, err := w.call(t, `{}`)
	if err == nil || !strings.HasSuffix(err.Error(), "::engine: "+messageLost) {
		t.Errorf("the caller sees %v", err)
	}
	if execs := len(w.provider.Calls(fake.Exec)) - before; execs != 0 {
		t.Errorf("%d executions after a call that may have run", execs)
	}
	if _, _, lost := w.told.counts(); lost != 0 {
		t.Error("the sandbox counts as lost")
	}
	if result, err := w.call(t, `{}`); err != nil || string(result) != `"executed"` {
		t.Errorf("the next call: %s, %v", result, err)
	}
	w.idle(t)
}

// A handler whose caller is gone is ended by way of its link.
func TestServe_callerGoneOverALink(t *testing.T) {
	w, end := newLinkedCallWorld(t)
	before := len(w.provider.Calls(fake.Exec))
	ctx, giveUp := context.WithCancel(t.Context())
	canceled := make(chan uint32, 1)
	go func() {
		source := bufio.NewReader(end)
		asked, _ := wire.ReadLinkPacket(source)
		giveUp()
		cancel, _ := wire.ReadLinkPacket(source)
		if cancel.Kind == wire.LinkCancel && cancel.Number == asked.Number {
			canceled <- cancel.Number
		}
		frame, _ := wire.EncodeReply(wire.Reply{Error: wire.Failf(wire.Canceled, "canceled")})
		line, _ := wire.LinkPacket{Kind: wire.LinkReply, Number: asked.Number, Body: frame}.Append(nil)
		_, _ = end.Write(line)
	}()
	if _, err := w.Serve(ctx, bus.Invocation{FunctionID: "shop::price", Data: []byte(`{}`)}); err == nil {
		t.Error("a call whose caller is gone has a result")
	}
	select {
	case <-canceled:
	case <-time.After(patience):
		t.Error("the guest was not told")
	}
	if execs := len(w.provider.Calls(fake.Exec)) - before; execs != 0 {
		t.Errorf("%d executions", execs)
	}
	w.idle(t)
}

// BenchmarkServe is the call path over a link, without bus and guest: several callers
// of one instance, most of whom wait for a slot.
func BenchmarkServe(b *testing.B) {
	w, end := newLinkedCallWorld(b)
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	w.Metrics = metrics
	w.Workers = newWorkers(func(context.Context) (map[string]string, error) { return map[string]string{"w1": "caller"}, nil })
	go answerAll(end)
	payload := []byte(`{"n":1,"_caller_worker_id":"w1"}`)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := w.Serve(b.Context(), bus.Invocation{FunctionID: "shop::price", Data: payload}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// answerAll is a guest that answers every call at once.
func answerAll(end net.Conn) {
	frame, _ := wire.EncodeReply(wire.Reply{Result: []byte(`2`), Start: wire.StartReady, DurationMs: time.Minute.Milliseconds()})
	source := bufio.NewReader(end)
	for {
		asked, err := wire.ReadLinkPacket(source)
		if err != nil {
			return
		}
		line, _ := wire.LinkPacket{Kind: wire.LinkReply, Number: asked.Number, Body: frame}.Append(nil)
		if _, err := end.Write(line); err != nil {
			return
		}
	}
}
