package runner_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/runner/link"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

const patience = 30 * time.Second

// linkedWorld has a guest that takes calls over a link too. There the test answers
// them, and executions say "executed".
type linkedWorld struct {
	*world
	registry *prometheus.Registry
	set      *link.Set
	// calls are the packets that the guest got.
	calls chan wire.LinkPacket
	mu    sync.Mutex
	end   net.Conn
}

func newLinkedWorld(t *testing.T) *linkedWorld {
	t.Helper()
	w := &linkedWorld{world: newWorld(), registry: prometheus.NewRegistry(), calls: make(chan wire.LinkPacket, 16)}
	w.executes(t, nil)
	w.set = link.NewSet(link.Options{Opener: w, Provider: w.provider, Agent: program, Program: func() ([]byte, error) { return []byte("#!link"), nil }})
	t.Cleanup(w.set.Close)
	w.Warm, w.Links = true, w.set
	var err error
	if w.Metrics, err = runner.NewMetrics(w.registry, w.set); err != nil {
		t.Fatal(err)
	}
	return w
}

// executes has executions answer, or fail.
func (w *linkedWorld) executes(t *testing.T, fails error) {
	answer := frame(t, wire.Reply{Result: json.RawMessage(`"executed"`), Start: wire.StartReady})
	done := frame(t, wire.Reply{})
	w.provider.OnExec(func(_ context.Context, _ sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		if req.Argv[1] == wire.CommandCall {
			return sandbox.ExecResult{Stdout: answer}, fails
		}
		return sandbox.ExecResult{Stdout: done}, nil
	})
}

// Open implements link.Opener.
func (w *linkedWorld) Open(context.Context) (calls, replies wire.LinkEnd, ends io.ReadWriteCloser, err error) {
	near, there := net.Pipe()
	w.mu.Lock()
	w.end = there
	w.mu.Unlock()
	go func() {
		source := bufio.NewReader(there)
		for packet, err := wire.ReadLinkPacket(source); err == nil; packet, err = wire.ReadLinkPacket(source) {
			w.calls <- packet
		}
	}()
	return calls, replies, near, nil
}

func (w *linkedWorld) answer(t *testing.T, packet wire.LinkPacket) {
	t.Helper()
	line, err := packet.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.end.Write(line); err != nil {
		t.Fatal(err)
	}
}

func (w *linkedWorld) linked(t *testing.T) {
	t.Helper()
	for range 8 {
		reply, err := w.Call(t.Context(), w.id, wire.CallRequest{TimeoutMs: 1000})
		if err != nil || string(reply.Result) != `"executed"` {
			t.Fatalf("a call before there is a link: %s, %v", reply.Result, err)
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); w.set.Open() == 0; {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("no link")
		}
	}
}

type outcome struct {
	reply wire.Reply
	err   error
}

func (w *linkedWorld) begin(ctx context.Context, token string) <-chan outcome {
	outcomes := make(chan outcome, 1)
	go func() {
		reply, err := w.Call(ctx, w.id, wire.CallRequest{TimeoutMs: 1000, Token: token})
		outcomes <- outcome{reply, err}
	}()
	return outcomes
}

func await[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func (w *linkedWorld) executions() int { return len(w.provider.Calls(fake.Exec)) }

func TestRunner_callsOverALink(t *testing.T) {
	w := newLinkedWorld(t)
	w.linked(t)
	before := w.executions()
	outcomes := w.begin(t.Context(), "secret-token")
	asked := await(t, w.calls)
	if strings.Contains(string(asked.Body), "secret-token") || !strings.Contains(string(asked.Body), `"warm":true`) {
		t.Errorf("the guest got %s", asked.Body)
	}
	content := []byte(`{"big":true}`)
	sum := sha256.Sum256(content)
	err := w.provider.WriteFile(t.Context(), w.id, sandbox.WriteFileRequest{Path: "/r", Content: bytes.NewReader(content), Size: int64(len(content))})
	if err != nil {
		t.Fatal(err)
	}
	w.answer(t, wire.LinkPacket{Kind: wire.LinkReply, Number: asked.Number, Body: frame(t, wire.Reply{
		ResultFile: &wire.ResultFile{Path: "/r", Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}, Start: wire.StartReady,
	})})
	got := await(t, outcomes)
	if got.err != nil || !bytes.Equal(got.reply.Result, content) || got.reply.ResultFile != nil {
		t.Errorf("got %+v, %v", got.reply, got.err)
	}
	if execs := w.executions() - before; execs != 1 {
		t.Errorf("%d executions, want the one that discards the result", execs)
	}
	w.counts(t, 8, 1)
}

// counts compares the metrics.
func (w *linkedWorld) counts(t *testing.T, executed, linked float64) {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			key := family.GetName()
			for _, label := range m.GetLabel() {
				key += " " + label.GetName() + "=" + label.GetValue()
			}
			got[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"sandbox_function_call_deliveries_total by=exec": executed, "sandbox_function_call_deliveries_total by=link": linked,
		"sandbox_function_links": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the metrics (-want +got):\n%s", diff)
	}
}

func TestRunner_callsThatTheGuestDoesNotRunAreExecuted(t *testing.T) {
	w := newLinkedWorld(t)
	w.linked(t)
	outcomes := w.begin(t.Context(), "")
	w.answer(t, wire.LinkPacket{Kind: wire.LinkNotRun, Number: await(t, w.calls).Number})
	if got := await(t, outcomes); got.err != nil || string(got.reply.Result) != `"executed"` {
		t.Errorf("got %s, %v", got.reply.Result, got.err)
	}
	w.counts(t, 9, 0)
}

func TestRunner_cancelsOverALink(t *testing.T) {
	w := newLinkedWorld(t)
	w.linked(t)
	ctx, giveUp := context.WithCancel(t.Context())
	outcomes := w.begin(ctx, "token")
	asked := await(t, w.calls)
	giveUp()
	if got := await(t, outcomes); !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %v", got.err)
	}
	before := w.executions()
	ended := make(chan error, 1)
	go func() { ended <- w.Cancel(t.Context(), w.id, "token") }()
	if canceled := await(t, w.calls); canceled.Kind != wire.LinkCancel || canceled.Number != asked.Number {
		t.Errorf("the guest got %q for call %d, want a cancel of %d", canceled.Kind, canceled.Number, asked.Number)
	}
	w.answer(t, wire.LinkPacket{Kind: wire.LinkReply, Number: asked.Number, Body: frame(t, wire.Reply{Error: wire.Failf(wire.Canceled, "canceled")})})
	if err := await(t, ended); err != nil || w.executions() != before {
		t.Errorf("%v after %d executions", err, w.executions()-before)
	}
	// What is not on the link is for the agent to end.
	if err := w.Cancel(t.Context(), w.id, "another"); err != nil || w.executions() != before+1 {
		t.Errorf("another call: %v after %d executions", err, w.executions()-before)
	}
}

func TestRunner_brokenLinks(t *testing.T) {
	w := newLinkedWorld(t)
	w.linked(t)
	outcomes := w.begin(t.Context(), "")
	await(t, w.calls)
	before := w.executions()
	w.mu.Lock()
	_ = w.end.Close()
	w.mu.Unlock()
	if got := await(t, outcomes); !sandbox.IsUnknownOutcome(got.err) || w.executions() != before {
		t.Errorf("a call that may have run: %v after %d executions", got.err, w.executions()-before)
	}
	if got := await(t, w.begin(t.Context(), "")); string(got.reply.Result) != `"executed"` {
		t.Errorf("the next call: %s, %v", got.reply.Result, got.err)
	}
}

func TestRunner_forgetsSandboxesThatAreGone(t *testing.T) {
	for name, gone := range map[string]error{
		"not found": sandbox.NewNotFoundError(), "dead": sandbox.NewTransientError("S300", "dead"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newLinkedWorld(t)
			w.linked(t)
			w.executes(t, gone)
			outcomes := w.begin(t.Context(), "")
			w.answer(t, wire.LinkPacket{Kind: wire.LinkNotRun, Number: await(t, w.calls).Number})
			if got := await(t, outcomes); !errors.Is(got.err, gone) || w.set.Open() != 0 {
				t.Errorf("got %v, and %d links are open", got.err, w.set.Open())
			}
		})
	}
}
